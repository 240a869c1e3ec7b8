"""Thresholds of least error at the network's outputs, where a tensor's own error says little about it.

A tensor's largest values may hardly matter to what follows: then a range that clips them costs the tensor more than it gains
it, and the outputs less. So the tensors that weigh most at the outputs are rounded one by one with other ranges, on
calibration samples, and each takes the range of least noise there.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.accuracy.simulation import Simulation
from edgedla.accuracy.state import State, Step
from edgedla.accuracy.triage import TensorError
from edgedla.quantization.samples import Feed
from edgedla.quantization.unify import equal_groups

#: Tensors, or groups of one scale, that are tried, and the share of the noise that they have to make together.
_MOST, _SHARE = 16, 0.9
#: Ranges that are tried, as factors of the one in use.
_FACTORS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.2)
#: A range is changed where the tensor's noise at the outputs falls by this share at least: less is chance.
_LEAST_GAIN = 0.02
#: A change must gain this much on held-out samples, else it is chance.
_GAIN_DB = 0.05


def output_thresholds(
    state: State,
    errors: Sequence[TensorError],
    calibration: Sequence[Feed],
    held_out: Sequence[Feed],
    fixed: Sequence[str] = (),
    progress: Optional[Callable[[int, int], None]] = None,
) -> None:
    """Changes the state's ranges, if the error on held-out samples falls.

    Args:
        errors: with output shares. calibration: a few samples that ranges are chosen on; not the held-out ones.
        fixed: tensors whose range is stated, not measured.
    """
    simulation = state.simulation()
    groups = _groups(state, simulation, errors, fixed)
    used = simulation.plan.calibration.absmax
    # Weights make noise of their own, which no range takes away.
    floor = simulation.noise(calibration, rounded=()).share
    changed: Dict[str, float] = {}
    for done, group in enumerate(groups):
        best = _best(simulation, group, used, calibration, floor)
        if best is not None:
            changed.update(dict.fromkeys(group, best))
        if progress is not None:
            progress(done + 1, len(groups))
    if not changed:
        return
    before = simulation.noise(held_out).sqnr_db
    after = state.simulation({**state.absmax, **changed}).noise(held_out).sqnr_db
    kept = after > before + _GAIN_DB
    more = ", ..." if len(changed) > 4 else ""
    detail = f"{len(changed)} tensors: {', '.join(list(changed)[:4])}{more}"
    state.steps.append(Step("thresholds of smallest output error", detail, before, after, kept))
    if kept:
        state.absmax = {**state.absmax, **changed}


def _groups(
    state: State, simulation: Simulation, errors: Sequence[TensorError], fixed: Sequence[str]
) -> List[Tuple[str, ...]]:
    """Tensors that share a scale, the group that makes the most noise at the outputs first."""
    on_dla = set(state.on_dla())
    shares = {e.tensor: e.output_share or 0.0 for e in errors}
    rounded = set(simulation.tensors) & set(state.absmax)
    graph = state.graph
    tied = equal_groups(graph, rounded, state.report.platform, lambda i: graph.layers[i].name in on_dla)
    groups = [tuple(group) for group in tied]
    alone = rounded.difference(*groups) if groups else rounded
    groups += [(name,) for name in simulation.tensors if name in alone]
    groups = [g for g in groups if not set(fixed).intersection(g) and sum(shares.get(n, 0.0) for n in g) > 0]
    groups.sort(key=lambda g: -sum(shares.get(n, 0.0) for n in g))
    total, reached = sum(shares.values()), 0.0
    chosen: List[Tuple[str, ...]] = []
    for group in groups[:_MOST]:
        if reached >= _SHARE * total:
            break
        chosen.append(group)
        reached += sum(shares.get(n, 0.0) for n in group)
    return chosen


def _best(
    simulation: Simulation, group: Tuple[str, ...], used: Mapping[str, float], feeds: Sequence[Feed], floor: float
) -> Optional[float]:
    """The range of least noise at the outputs with the group alone rounded; None where the one in use is as good."""
    now = max(used[name] for name in group)

    def share(value: float) -> float:
        return simulation.noise(feeds, dict.fromkeys(group, value), group).share

    shares = {factor: share(now * factor) for factor in (1.0, *_FACTORS)}
    best = min(shares, key=lambda factor: shares[factor])
    gained = shares[1.0] - shares[best]
    return now * best if gained > _LEAST_GAIN * max(shares[1.0] - floor, 0.0) else None
