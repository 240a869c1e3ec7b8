"""Better thresholds, then layers in FP16, until the outputs are as close to FP32 as asked. A run checks every step."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Collection, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from edgedla.accuracy.choose_fp16 import Candidate, Choice, choose
from edgedla.accuracy.layer_times import LayerTimes
from edgedla.accuracy.simulation import Simulation
from edgedla.accuracy.state import GAIN_DB, State, Step
from edgedla.accuracy.triage import TensorError
from edgedla.errors import BuildError
from edgedla.quantization.samples import Feed
from edgedla.quantization.unify import copies
from edgedla.vocabulary import GPU

#: Most rounds of tightening the bound after noise did not add up as assumed.
_ROUNDS = 6
#: Smallest gain on the tensor alone for which another threshold is tried.
_ALONE_DB = 1.0
Enough = Callable[[float, Simulation], bool]


def better_thresholds(state: State, errors: Sequence[TensorError], feeds: Sequence[Feed], enough: Enough) -> bool:
    """Sets the range of minimum error for as few tensors as needed, the noisiest at the outputs first; True if that is enough.

    Tensors that only move or repeat another tensor's values share one threshold with it. The change is kept only if the
    held-out error falls.
    """
    better = {e.tensor: e.best for e in errors if e.tensor in state.absmax and e.loss_db >= _ALONE_DB}
    if not better:
        return False
    weights = {e.tensor: (-(e.output_share or 0.0), -e.loss_db) for e in errors}
    of = copies(state.graph)
    groups: Dict[str, List[str]] = {}
    for name in sorted(better, key=lambda n: weights[n]):
        groups.setdefault(of.get(name, name), []).append(name)
    order = list(groups.values())
    before = state.simulation().noise(feeds).sqnr_db
    best: Optional[Tuple[float, int]] = None
    met = False
    for count in _growing(len(order)):
        simulation = state.simulation({**state.absmax, **_ranges(order[:count], better)})
        after = simulation.noise(feeds).sqnr_db
        if best is None or after > best[0] + GAIN_DB:
            best = (after, count)
        met = enough(after, simulation)
        if met:
            best = (after, count)
            break
    assert best is not None
    after, count = best
    kept = after > before + GAIN_DB
    chosen = _ranges(order[:count], better)
    many = f"{count} thresholds" if count > 1 else "1 threshold"
    with_copies = f" of {len(chosen)} tensors" if len(chosen) > count else ""
    names = ", ".join(group[0] for group in order[: min(count, 4)]) + (", ..." if count > 4 else "")
    state.steps.append(Step("better thresholds", f"{many}{with_copies}: {names}", before, after, kept))
    if kept:
        state.absmax = {**state.absmax, **chosen}
    return kept and met


def _ranges(groups: Sequence[Sequence[str]], better: Mapping[str, float]) -> Dict[str, float]:
    """The better ranges of the tensors in these groups; a group takes its largest range."""
    return {name: max(better[n] for n in group) for group in groups for name in group}


def _growing(most: int) -> List[int]:
    """Numbers of tensors to try: 1, 2, 3, 4, 6, 8, 12, 16, ... and `most`."""
    counts = [c for k in range(16) for c in (2**k, 3 * 2**k // 2) if 0 < c < most]
    return [*sorted(set(counts)), most]


def candidates_of(state: State, errors: Sequence[TensorError]) -> List[Candidate]:
    """The tensors with known noise at the outputs, with the DLA layers that read or write them."""
    on_dla = set(state.on_dla())
    candidates = []
    for error in errors:
        if not error.output_share:
            continue
        producer = state.graph.producer(error.tensor)
        indices = [*(() if producer is None else (producer,)), *state.graph.consumers(error.tensor)]
        layers = tuple(dict.fromkeys(state.graph.layers[i].name for i in indices))
        layers = tuple(name for name in layers if name in on_dla)
        if layers:
            candidates.append(Candidate(error.tensor, error.output_share, layers))
    return candidates


def _adding_up(candidates: Sequence[Candidate], total: float) -> List[Candidate]:
    """The candidates with noise scaled down so that its sum is at most `total`, the noise with all tensors rounded.

    Errors of neighbouring tensors partly cancel, so the sum of single measurements may be several times larger.
    """
    measured = sum(c.share for c in candidates)
    factor = total / measured if measured > total > 0 else 1.0
    return [replace(c, share=c.share * factor) for c in candidates]


def layers_to_fp16(
    state: State,
    errors: Sequence[TensorError],
    times: LayerTimes,
    feeds: Sequence[Feed],
    enough: Enough,
    goal_db: Optional[float] = None,
    no_fp16: Collection[str] = (),
) -> Optional[Choice]:
    """Moves layers out of INT8, to FP16 on the DLA or the GPU, at the minimum predicted time for which `enough` holds.

    The knapsack assumes that noise adds up. A run checks each choice, and if it fails, the bound is tightened. Returns
    None and changes nothing if no choice is enough.

    Args:
        enough: (SQNR in dB, simulation) -> True if the goal is met. goal_db: the goal's SQNR, if it has one.
        no_fp16: layers whose tensors FP16 cannot hold.
    """
    before = state.simulation().noise(feeds)
    candidates = _adding_up(candidates_of(state, errors), before.share)
    on_dla = set(state.on_dla())
    total = before.share
    prices = replace(times.prices({x.name for x in state.graph.layers} - on_dla), no_fp16=frozenset(no_fp16))
    old_precisions, old_devices = dict(state.precisions), dict(state.devices)
    # Without a goal in dB, first remove half of the noise.
    excess = total - 10.0 ** (-goal_db / 10.0) if goal_db is not None else total * 0.5
    excess = excess if excess > 0 else total * 0.5
    tried: Set[Tuple[Tuple[str, ...], ...]] = set()
    for _ in range(_ROUNDS):
        choice = choose(candidates, prices, min(excess, 0.999 * sum(c.share for c in candidates)))
        if choice is not None and on_dla.issubset(choice.gpu):
            # The choice would leave nothing on the DLA. That is another placement, not a repair, so allow FP16 only.
            prices = replace(prices, gpu_us={})
            continue
        if choice is None:
            break
        if (choice.layers, choice.gpu) in tried:
            excess = _tighter(excess, total)
            continue
        tried.add((choice.layers, choice.gpu))
        state.precisions = {**old_precisions, **dict.fromkeys(choice.layers, "fp16")}
        state.devices = {**old_devices, **dict.fromkeys(choice.gpu, GPU)}
        try:
            simulation = state.simulation()
        except BuildError:
            # More borders may be more subgraphs than an engine takes: FP16 on the DLA makes none.
            prices = replace(prices, gpu_us={})
            continue
        after = simulation.noise(feeds)
        goal_met = enough(after.sqnr_db, simulation)
        named = ", ".join(f"{n} (GPU)" if n in choice.gpu else n for n in choice.layers[:6])
        detail = f"{len(choice.layers)} layers: {named}" + (", ..." if len(choice.layers) > 6 else "")
        good = goal_met and after.sqnr_db > before.sqnr_db
        state.steps.append(Step("layers in FP16", detail, before.sqnr_db, after.sqnr_db, good, choice.cost_us))
        if good:
            return choice
        excess = _tighter(excess, total)
    state.precisions, state.devices = old_precisions, old_devices
    return None


def _tighter(excess: float, total: float) -> float:
    return min(excess + (total - excess) * 0.6, total)
