"""`split-shared-scale` gives back channels that a shared scale rounded away: the least costly layers leave INT8."""

from __future__ import annotations

from typing import Callable, List, Sequence, Set, Tuple

from edgedla.accuracy.channels.measure import ChannelGroup, ChannelNoise
from edgedla.accuracy.layer_times import LayerTimes
from edgedla.accuracy.state import State, Step
from edgedla.quantization.samples import Feed
from edgedla.vocabulary import GPU

#: Begins the name of the step.
SPLIT = "split-shared-scale"


def dead(groups: Sequence[ChannelGroup], least_db: float) -> List[ChannelGroup]:
    """The groups below the floor."""
    return [g for g in groups if not g.sqnr_db >= least_db]


def repair_channels(
    state: State, noise: ChannelNoise, feeds: Sequence[Feed], least_db: float, times: LayerTimes
) -> None:
    """Takes layers out of INT8 if that gives back every group that is dead; changes nothing if no choice does.

    A concatenation in FP16 needs no shared scale. Tried: the joins in front of the output, also what makes the dead
    channels, and every join of the network with what makes and reads its tensors; each in FP16 on the DLA, and on the GPU,
    which ends the DLA's part in front of them. In a strongly typed release types decide the device: only FP16 is tried.
    """
    simulation = state.simulation()
    before = dead(noise.groups(simulation, feeds), least_db)
    if not before:
        return
    extra, old, on_dla = times.extra_us(), (dict(state.precisions), dict(state.devices)), set(state.on_dla())
    on_gpu = {x.name for x in state.graph.layers} - on_dla
    choices: List[Tuple[float, bool, Tuple[str, ...]]] = []
    for names in _choices(state, noise, before):
        choices.append((sum(max(extra.get(name, 0.0), 0.0) for name in names), False, names))
        if on_dla - set(names) and not state.report.platform.release.strongly_typed:
            choices.append((max(times.to_gpu_us(names, on_gpu), 0.0), True, names))
    sqnr = simulation.noise(feeds).sqnr_db
    del simulation
    for cost_us, to_gpu, names in sorted(choices, key=lambda choice: (choice[:2], len(choice[2]))):
        state.precisions = {**old[0], **dict.fromkeys(names, "fp16")}
        state.devices = {**old[1], **dict.fromkeys(names if to_gpu else (), GPU)}
        trial = state.simulation()
        left = dead(noise.groups(trial, feeds), least_db)
        shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        state.steps.append(
            Step(f"{SPLIT} {'on the GPU' if to_gpu else 'in FP16'}",
                 f"{shown}: {len(before) - len(left)} of {len(before)} groups of channels back",
                 sqnr, trial.noise(feeds).sqnr_db, not left, cost_us)
        )  # fmt: skip
        if not left:
            state.revived = tuple(before)
            return
    state.precisions, state.devices = old


def _choices(state: State, noise: ChannelNoise, groups: Sequence[ChannelGroup]) -> List[Tuple[str, ...]]:
    """Sets of DLA layers to try in FP16."""
    path: Set[str] = set()
    for g in groups:
        path.update((g.output, *noise.units[g.output].path))
    makers = {g.tensor for g in groups}
    tied = {name for group in state.tied(set(state.absmax)) if len(group) > 1 for name in group}
    joins = _layers(state, lambda reads, writes: bool(writes & path) and not writes & makers)
    made = _layers(state, lambda reads, writes: bool(writes & (path | makers)))
    around = _layers(state, lambda reads, writes: bool((reads | writes) & (tied | path | makers)))
    chosen = dict.fromkeys((joins, made, around))
    return [names for names in chosen if names and not set(names) <= set(state.precisions)]


def _layers(state: State, taken: Callable[[Set[str], Set[str]], bool]) -> Tuple[str, ...]:
    """DLA layers, by the tensors that they read and write."""
    on_dla = set(state.on_dla())
    return tuple(x.name for x in state.graph.layers if x.name in on_dla and taken(set(x.inputs), set(x.outputs)))
