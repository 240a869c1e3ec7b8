"""`split-shared-scale` gives back channels that a shared scale rounded away: the least costly layers leave INT8."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Callable, Dict, FrozenSet, List, NamedTuple, Sequence, Set, Tuple

from edgedla.accuracy.channels.measure import ChannelGroup, ChannelNoise
from edgedla.accuracy.layer_times import LayerTimes
from edgedla.accuracy.phases.job import Job
from edgedla.accuracy.repairs.rescale import divided_behind
from edgedla.accuracy.state import State, Step
from edgedla.costs.model import CostModel
from edgedla.errors import BuildError
from edgedla.importers import load_onnx
from edgedla.quantization.collect import collect
from edgedla.quantization.methods import thresholds
from edgedla.quantization.samples import Feed, Samples
from edgedla.regions import check_graph
from edgedla.vocabulary import GPU

#: Begins the name of the step.
SPLIT = "split-shared-scale"


class _Choice(NamedTuple):
    """Layers to take out of INT8. `state`: with their network. `new`: tensors of it that have no range yet."""

    cost_us: float
    to_gpu: bool
    layers: Tuple[str, ...]
    state: State
    new: FrozenSet[str] = frozenset()


def dead(groups: Sequence[ChannelGroup], least_db: float) -> List[ChannelGroup]:
    """The groups below the floor."""
    return [g for g in groups if not g.sqnr_db >= least_db]


def repair_channels(
    job: Job, state: State, noise: ChannelNoise, feeds: Sequence[Feed], calibration: Samples, times: LayerTimes
) -> None:
    """Takes layers out of INT8 if that gives back every group that is dead; changes nothing if no choice does.

    A concatenation in FP16 needs no shared scale. Tried: the joins in front of the output, also what makes the dead
    channels, and every join of the network with what makes and reads its tensors; each in FP16 on the DLA, and on the GPU,
    which ends the DLA's part in front of them. In a strongly typed release types decide the device: only FP16 is tried.
    Also tried: convolutions that write their channels times powers of two; only a product behind them leaves INT8.
    """
    least_db, simulation = job.request.min_channel_sqnr_db, state.simulation()
    groups = noise.groups(simulation, feeds)
    before = dead(groups, least_db)
    if not before:
        return
    sqnr = simulation.noise(feeds).sqnr_db
    del simulation
    measured: Dict[str, float] = {}
    choices = [*_apart(state, noise, before, times), *_divided(state, noise, before, groups)]
    for choice in sorted(choices, key=lambda choice: (choice.cost_us, choice.to_gpu, len(choice.layers))):
        names, changed = choice.layers, choice.state
        if choice.new and not measured:
            measured = thresholds(collect(changed.model, calibration, job.counter("collecting")), job.request.method)
        ranges = {n: top for n, top in changed.absmax.items() if n not in choice.new}
        ranges.update((n, measured[n]) for n in choice.new if n in measured)
        precisions = {**state.precisions, **dict.fromkeys(names, "fp16")}
        devices = {**state.devices, **dict.fromkeys(names if choice.to_gpu else (), GPU)}
        trial = replace(changed, absmax=ranges, precisions=precisions, devices=devices)
        shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        name = f"{SPLIT} {'by powers of two, divided ' if choice.new else ''}{'on the GPU' if choice.to_gpu else 'in FP16'}"
        try:
            simulation = trial.simulation()
        except BuildError as refused:
            # More borders may be more subgraphs than an engine takes.
            why = " ".join(refused.what.split())
            state.steps.append(Step(name, f"{shown}: {why}", sqnr, math.nan, False, choice.cost_us))
            continue
        left = dead(noise.groups(simulation, feeds), least_db)
        detail = f"{shown}: {len(before) - len(left)} of {len(before)} groups of channels back"
        state.steps.append(Step(name, detail, sqnr, simulation.noise(feeds).sqnr_db, not left, choice.cost_us))
        if not left:
            vars(state).update(vars(trial), revived=tuple(before))
            return


def _apart(state: State, noise: ChannelNoise, groups: Sequence[ChannelGroup], times: LayerTimes) -> List[_Choice]:
    """The network's own layers, in FP16 and on the GPU."""
    extra, on_dla = times.extra_us(), set(state.on_dla())
    on_gpu = {x.name for x in state.graph.layers} - on_dla
    choices = []
    for names in _sets(state, noise, groups):
        choices.append(_Choice(sum(max(extra.get(name, 0.0), 0.0) for name in names), False, names, state))
        if on_dla - set(names) and not state.report.platform.release.strongly_typed:
            choices.append(_Choice(max(times.to_gpu_us(names, on_gpu), 0.0), True, names, state))
    return choices


def _divided(state: State, noise: ChannelNoise, before: Sequence[ChannelGroup], groups: Sequence[ChannelGroup]) -> List[_Choice]:
    """Products behind rescaled convolutions, at each output that has a dead group."""
    changed, platform, products = state.model, state.report.platform, []
    new: Set[str] = set()
    for output in dict.fromkeys(g.output for g in before):
        found = divided_behind(changed, output, noise.units[output], [g for g in groups if g.output == output])
        if found is not None:
            changed, product, tensors = found
            new.update(tensors)
            products.append(product)
    if not products or not platform.has_dla:
        return []
    graph = replace(load_onnx(changed, trt=platform.release.trt), name=state.graph.name)
    state = replace(state, model=changed, graph=graph, report=check_graph(graph, platform, "int8", "fallback"))
    on_dla, costs = set(state.on_dla()), CostModel.load(platform, "fp16").layer_costs(graph)
    layers = [x for x in graph.layers if x.onnx_node in products]
    fed = {graph.layers[i].name for x in layers for i in map(graph.producer, x.inputs) if i is not None}
    names, choices = tuple(x.name for x in layers), []
    for to_gpu, device in ((False, "DLA"), (True, "GPU")):
        if platform.release.strongly_typed if to_gpu else not on_dla.issuperset((*names, *fed)):
            continue
        # Behind a convolution of another precision or device it is not fused into it.
        apart = [by[device] for (_, i), by in costs.separations.items() if i in (x.index for x in layers)]
        cost_us = sum(cost.latency_us for cost in (*(costs[x.index, device] for x in layers), *apart))
        choices.append(_Choice(cost_us, to_gpu, names, state, frozenset(new)))
    return choices


def _sets(state: State, noise: ChannelNoise, groups: Sequence[ChannelGroup]) -> List[Tuple[str, ...]]:
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
