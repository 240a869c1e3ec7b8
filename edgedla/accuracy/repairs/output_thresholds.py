"""Chooses thresholds by the error at the network's outputs, of which a tensor's own error says little.

A tensor's largest values may hardly matter to the outputs: then clipping them helps the outputs but increases the
tensor's own error. Or they matter most, for example at the few places of a frame that hold an object. So ranges are
tried on calibration samples for the tensors with the most noise at the outputs, one tensor at a time, with all others
rounded too. Each takes the range with the minimum salient noise (repairs.salient_noise).
"""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.accuracy.repairs.salient_noise import SalientNoise
from edgedla.accuracy.simulation import Simulation, to_db
from edgedla.accuracy.state import GAIN_DB, State, Step
from edgedla.accuracy.triage import TensorError
from edgedla.builder.host.segments import SEARCHED
from edgedla.quantization.samples import Feed

#: Most tensors, or groups of one scale, to try; fewer if they already make this share of the noise of all ranges.
_MOST, _SHARE = 24, 0.97
#: Factor between the ranges tried, for each pass; a range is divided or multiplied repeatedly while the noise falls.
_STEPS = (0.85, 0.92)
#: Steps without a gain before a direction is given up: noise does not fall evenly.
_PATIENCE = 2
#: Smallest relative drop of the noise at the outputs for which a range changes; less is chance.
_LEAST_GAIN = 0.005


def output_thresholds(
    state: State,
    errors: Sequence[TensorError],
    calibration: Sequence[Feed],
    held_out: Sequence[Feed],
    fixed: Sequence[str] = (),
    progress: Optional[Callable[[int, int], None]] = None,
) -> None:
    """Changes the state's ranges if the error on held-out samples falls.

    Args:
        errors: with output shares. calibration: a few samples to choose ranges on, none of them held out.
        fixed: tensors whose range is stated, not measured.
    """
    simulation = state.simulation(parts=SEARCHED)
    groups = _groups(state, simulation, calibration, errors, fixed)
    noise = SalientNoise(simulation, calibration)
    used = simulation.plan.calibration.absmax
    ranges: Dict[str, float] = {name: used[name] for name in simulation.tensors}
    least = noise.parts(ranges)
    for k, step in enumerate(_STEPS):
        for done, group in enumerate(groups):
            best, least = _best(noise, group, ranges, step, least)
            ranges.update(dict.fromkeys(group, best))
            if progress is not None:
                progress(k * len(groups) + done + 1, len(_STEPS) * len(groups))
    # Each range changes by its factor; only the rules make ranges of a group equal, and they report it.
    changed = {n: state.absmax[n] * (r / used[n]) for n, r in ranges.items() if n in state.absmax and r != used[n]}
    if not changed:
        return
    repaired = state.plan({**state.absmax, **changed}).calibration.absmax
    before, after = (simulation.noise(held_out, absmax).sqnr_db for absmax in (used, repaired))
    salient = SalientNoise(simulation, held_out)
    gained_db = to_db(sum(salient.parts(repaired))) - to_db(sum(salient.parts(used)))
    kept = gained_db > GAIN_DB and after > before - GAIN_DB
    more = ", ..." if len(changed) > 4 else ""
    noise_change = f"{abs(gained_db):.2f} dB {'less' if gained_db >= 0 else 'more'}"
    names = f"{len(changed)} tensor{'s' * (len(changed) != 1)} ({', '.join(list(changed)[:4])}{more})"
    detail = f"{names}; judged by the noise where outputs vary: {noise_change}"
    state.steps.append(Step("thresholds of smallest output error", detail, before, after, kept))
    if kept:
        state.absmax = {**state.absmax, **changed}


def _groups(
    state: State, simulation: Simulation, calibration: Sequence[Feed], errors: Sequence[TensorError], fixed: Sequence[str]
) -> List[Tuple[str, ...]]:
    """Groups of tensors that share a scale, the noisiest at the outputs first."""
    # Rounded weights add noise to every run, which no range removes.
    floor = simulation.noise(calibration, rounded=()).share
    shares = {e.tensor: max((e.output_share or 0.0) - floor, 0.0) for e in errors}
    rounded = set(simulation.tensors) & set(state.absmax)
    groups = state.tied(rounded)
    alone = rounded.difference(*groups) if groups else rounded
    groups += [(name,) for name in simulation.tensors if name in alone]
    groups = [g for g in groups if not set(fixed).intersection(g) and sum(shares.get(n, 0.0) for n in g) > 0]
    groups.sort(key=lambda g: -sum(shares.get(n, 0.0) for n in g))
    total, covered = sum(shares.values()), 0.0
    chosen: List[Tuple[str, ...]] = []
    for group in groups[:_MOST]:
        if covered >= _SHARE * total:
            break
        chosen.append(group)
        covered += sum(shares.get(n, 0.0) for n in group)
    return chosen


def _best(
    noise: SalientNoise, group: Tuple[str, ...], ranges: Mapping[str, float], step: float, least: List[float]
) -> Tuple[float, List[float]]:
    """(the group's range with the minimum noise, that noise by sample), with all other tensors rounded by `ranges`.

    Args:
        least: the noise with `ranges`, by sample.
    """
    now, best = max(ranges[name] for name in group), 1.0
    for direction in (step, 1.0 / step):
        factor, failed = direction, 0
        while failed < _PATIENCE:
            parts = noise.parts({**ranges, **dict.fromkeys(group, now * factor)}, least)
            if sum(parts) < sum(least) * (1.0 - _LEAST_GAIN):
                best, least, failed = factor, parts, 0
            else:
                failed += 1
            factor *= direction
        if best != 1.0:
            break
    return now * best, least
