"""Contiguous stages that keep all engines equally busy: one stage per engine, with cuts found by bisection."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Dict, List, Optional, Sequence, Tuple

from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.problem import Problem

#: Rounds that correct the sums of item times by the evaluated times of the stages; bisection steps for the period.
CORRECTIONS, HALVINGS = 3, 30


def staged(problem: Problem, order: Sequence[str], cuts: Sequence[int]) -> Tuple[str, ...]:
    """Puts each stage on its engine; items not allowed there go to their first allowed device."""
    ends = [*cuts, len(problem.items)]
    devices: List[str] = []
    stage = 0
    for i, item in enumerate(problem.items):
        while i >= ends[stage]:
            stage += 1
        devices.append(order[stage] if order[stage] in item.allowed else item.allowed[0])
    return tuple(devices)


def balanced_cuts(problem: Problem, order: Sequence[str]) -> Optional[Tuple[int, ...]]:
    """The cuts between the engines of an order of at least two; None if they cannot be filled equally.

    First, sums of item times give the cuts. Then the stages are evaluated, with loadables, transitions and fallback
    items, and each engine's capacity is reduced by the difference. This repeats a few times.
    """
    engines = frozenset(order)
    sums: Dict[str, List[float]] = {}
    for device in order:
        times = (
            rate * item.time_us(device) * problem.factor(engines, device) if device in item.allowed else 0.0
            for item, rate in ((i, problem.rates[i.model]) for i in problem.items)
        )
        sums[device] = [0.0, *accumulate(times)]
    beside = dict.fromkeys(order, 0.0)
    cuts: Optional[Tuple[int, ...]] = None
    for _ in range(CORRECTIONS):
        low, high = 0.0, max(s[-1] for s in sums.values()) + max(beside.values())
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            tried = _filled(order, sums, beside, middle)
            low, high = (low, middle) if tried is not None else (middle, high)
        cuts = _filled(order, sums, beside, high)
        if cuts is None:
            return None
        e = evaluate(problem, staged(problem, order, cuts))
        ends = [0, *cuts, len(problem.items)]
        for k, device in enumerate(order):
            beside[device] = e.load(problem, device).latency_us - (sums[device][ends[k + 1]] - sums[device][ends[k]])
    return cuts


def _filled(
    order: Sequence[str], sums: Dict[str, List[float]], beside: Dict[str, float], period_us: float
) -> Optional[Tuple[int, ...]]:
    """The cuts with every engine but the last filled up to the period; None if the last engine exceeds it."""
    cuts: List[int] = []
    at = 0
    for device in order[:-1]:
        reach = sums[device][at] + period_us - beside[device]
        at = max(bisect_right(sums[device], reach) - 1, at)
        cuts.append(at)
    rest = sums[order[-1]]
    return tuple(cuts) if rest[-1] - rest[at] + beside[order[-1]] <= period_us else None
