"""Streams with latency bounds per frame: proven optima equal those of brute force over all assignments."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.fractional import engine_sets
from edgedla.placement.solvers.bounds.latency_limit import LatencyLimit, most_in_all
from edgedla.placement.solvers.bounds.weights import STEPS, TIMES, climbed
from edgedla.placement.solvers.solve import solve
from edgedla.placement.solvers.states.frontier import Frontier
from tests.placement.own_sums import is_legal, loads_of, value_of
from tests.placement.placement_problems import checked, problems

pytestmark = pytest.mark.once

CHECKED = checked(25, 600)
ONE_CORE, ALL = ("GPU", "DLA0"), ("GPU", "DLA0", "DLA1")
PROBLEMS = st.one_of(problems(6, ONE_CORE), problems(5, ALL), problems(6, ONE_CORE, 2), problems(5, ALL, 2))


def frames_us(problem: Problem, devices: Sequence[str]) -> Tuple[float, ...]:
    loads = loads_of(problem, devices)
    return tuple(sum(us for (m, _), (us, _) in loads.items() if m == k) for k in range(len(problem.models)))


def least_period(problem: Problem, keeps: Callable[[Tuple[float, ...]], bool]) -> float:
    every = itertools.product(*(item.allowed for item in problem.items))
    legal = (d for d in every if is_legal(problem, d) and keeps(frames_us(problem, d)))
    return min((value_of(problem, d, "throughput") for d in legal), default=INFINITY)


@st.composite
def bounded(draw: Any) -> Tuple[Problem, Goal, float]:
    """(problem, a goal that bounds each frame or all of them, the least period within)."""
    problem = draw(PROBLEMS)
    every = [frames_us(problem, d) for d in itertools.product(*(item.allowed for item in problem.items)) if is_legal(problem, d)]
    if not every:
        return problem, Goal("throughput", total_latency_us=1.0), INFINITY
    at = draw(st.sampled_from(sorted(every, key=sum)[: max(len(every) // 3, 1)]))
    more = draw(st.sampled_from((1.0, 1.05, 1.3)))
    if draw(st.booleans()):
        total = sum(at) * more
        goal = Goal("throughput", total_latency_us=total)
        return problem, goal, least_period(problem, lambda us: sum(us) <= total * (1 + 1e-9))
    each = tuple(us * more for us in at)
    goal = Goal("throughput", each)
    return problem, goal, least_period(problem, lambda us: all(u <= b * (1 + 1e-9) for u, b in zip(us, each)))


@CHECKED
@given(bounded())
def test_the_period_within_a_latency_is_that_of_brute_force(case: Tuple[Problem, Goal, float]) -> None:
    problem, goal, least = case
    for solution in (solve(problem, goal, time_limit_s=600),):
        assert solution.optimal
        if least < INFINITY:
            assert solution.value == pytest.approx(least, rel=2e-4)
            assert solution.bound <= least * (1 + 1e-9)
        else:
            assert solution.best is None


@CHECKED
@given(bounded())
def test_bounds_with_a_price_on_latency_are_below_every_period(case: Tuple[Problem, Goal, float]) -> None:
    problem, goal, least = case
    most_us = most_in_all(problem, goal)
    assert most_us is not None
    bounds = []
    for engines in engine_sets(problem, goal):
        frontier = Frontier(problem, engines)
        factors = np.array([problem.factor(frozenset(engines), d) for d in frontier.devices])
        bounds.append(LatencyLimit(frontier, most_us).bound(factors))
    assert min(bounds, default=INFINITY) <= least * (1 + 1e-9)


def test_a_climb_ends_though_its_bound_rises_without_end() -> None:
    """As where no placement keeps a latency: any higher price gives a higher bound."""
    reached, best = climbed(lambda rows: rows[:, 0], lambda row, step: np.array([row, row * (1 + step)]), np.array([1.0]), 1.0)
    assert reached == best[0] == pytest.approx(np.prod([(1 + step) ** TIMES for step in STEPS]))


def test_a_model_without_a_bound_leaves_all_loads_unbounded() -> None:
    problem = Problem((), (), (), lambda *_: (), ("a", "b"), rates=(2.0, 1.0))
    assert most_in_all(problem, Goal("throughput")) is None
    assert most_in_all(problem, Goal("throughput", (3.0, 5.0))) == 11.0
    assert most_in_all(problem, Goal("throughput", (3.0, 5.0), total_latency_us=4.0)) == 8.0
