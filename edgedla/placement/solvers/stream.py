"""The throughput of a stream: sweeps over each set of engines, wider and wider, until the bound meets the best found."""

from __future__ import annotations

import time
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.placement.problem.baselines import after_cap
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution, legal, measure_of
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.frontier import Frontier
from edgedla.placement.solvers.load_weights import Prices
from edgedla.placement.solvers.lower_bounds import alike, engine_sets, floor_on
from edgedla.placement.solvers.sweep import sweep
from edgedla.placement.solvers.weights import best_prices

#: Partial placements that go on from each item to the next, sweep by sweep.
WIDTHS: Tuple[int, ...] = (250, 2_000, 16_000, 64_000)

#: Weights that the wider sweeps keep.
WEIGHTS = 16


def solve_stream(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    time_limit_s: float = 10.0,
    gap: float = GAP,
) -> Solution:
    """The least period, with proof where the sweeps come to an end; without, the best found and a bound.

    They do not end where a limit of the problem binds that the sweeps know nothing of: caps, sizes, pools, and
    loadables that TensorRT parts because of different batches.
    """
    began = time.monotonic()
    deadline = began + time_limit_s
    measure = measure_of(goal, None)
    best: Optional[Evaluation] = None
    value = INFINITY

    def offer(assignment: Sequence[str]) -> None:
        nonlocal best, value
        for tried in (assignment, after_cap(problem, tuple(assignment))):
            e = evaluate(problem, tried)
            if legal(problem, e, goal):
                reached, _ = measure(problem, e)
                if reached < value * (1 - 1e-9):
                    best, value = e, reached
                return

    for assignment in start:
        offer(assignment)
    sets = engine_sets(problem, goal)
    floors = {engines: floor_on(problem, goal, engines) for engines in sets}
    bounds: Dict[Tuple[str, ...], float] = {engines: floor for engines, (floor, _) in floors.items()}
    prepared: List[Tuple[float, Tuple[str, ...], Frontier, Prices, np.ndarray]] = []
    rounds, timed_out = 0, False
    for engines in sorted(sets, key=lambda s: bounds[s]):
        timed_out = timed_out or time.monotonic() > deadline
        if timed_out or bounds[engines] >= value * (1 - gap):
            continue
        frontier = Frontier(problem, engines)
        factors = np.array([problem.factor(frozenset(engines), d) for d in frontier.devices])
        bound, prices = best_prices(frontier, factors, floors[engines][1])
        bounds[engines] = max(bounds[engines], bound)
        if bounds[engines] < value * (1 - gap):
            prepared.append((bounds[engines], engines, frontier, prices, factors))
    latency_us = goal.bound_of(0) if len(problem.models) == 1 else None
    complete: Set[Tuple[str, ...]] = set()
    trimmed: Dict[Tuple[str, ...], Prices] = {}
    for width in WIDTHS:
        for _, engines, frontier, prices, factors in sorted(prepared, key=lambda p: p[:2]):
            if timed_out or engines in complete or bounds[engines] >= value * (1 - gap):
                continue
            if width > WIDTHS[0] and engines not in trimmed:
                # The first sweep has shown which prices matter.
                trimmed[engines] = prices.most_used(WEIGHTS)
            prices = trimmed.get(engines, prices)
            same = len(frontier.devices) == 3 and alike(problem)
            swept = sweep(frontier, prices, factors, value * (1 - gap), width, same, deadline, latency_us)
            rounds += 1
            bounds[engines] = max(bounds[engines], swept.bound)
            timed_out = swept.stopped
            if swept.complete:
                complete.add(engines)
            if swept.assignment is not None:
                offer(swept.assignment)
    bound = min(min(bounds.values(), default=INFINITY), value)
    return Solution(best, value, bound, "sweep", rounds, time.monotonic() - began, timed_out)
