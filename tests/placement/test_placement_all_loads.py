"""Streams with latency bounds per frame: proven optima equal those of brute force over all assignments."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Sequence, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.deadline import NEVER
from edgedla.placement.problem.goal import GAP, INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.latency_limit import most_in_all
from edgedla.placement.solvers.busiest.solve_stream import solve_stream
from edgedla.placement.solvers.more_models.relaxed import with_equal_cores
from edgedla.placement.solvers.solve import least_on_gpu, solve
from tests.placement.own_sums import is_legal, loads_of, value_of
from tests.placement.placement_problems import checked, problems
from tests.placement.tiny_networks import tiny_pair, tiny_problem

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
def test_no_period_is_shorter_than_the_work_of_the_gpu_within_the_bounds(case: Tuple[Problem, Goal, float]) -> None:
    problem, goal, least = case
    least_us, [devices] = least_on_gpu(problem, goal, NEVER, GAP)
    assert least_us <= least * (1 + 1e-9)
    assert all(device in item.allowed for device, item in zip(devices, problem.items))


def test_what_is_known_of_the_gpus_work_ends_the_search() -> None:
    problem, _ = tiny_problem(9, ALL)
    start = ("GPU",) * len(problem.items)
    (bound_us,) = frames_us(problem, start)
    goal = Goal("throughput", bound_us)
    assert solve_stream(problem, goal, [start]).rounds > 0
    known = solve_stream(problem, goal, [start], gpu_us=bound_us)
    assert (known.rounds, known.bound) == (0, pytest.approx(bound_us))


def test_models_whose_bounds_leave_most_work_to_the_gpu_use_the_cores_in_turn() -> None:
    problem = with_equal_cores(tiny_pair(1, ALL))
    least_us, [devices] = least_on_gpu(problem, Goal("throughput", 1e6), NEVER, GAP)
    used = [{devices[i] for i in problem.items_of(m)} - {"GPU"} for m in (0, 1)]
    assert used == [{"DLA0"}, {"DLA1"}]
    assert least_us == pytest.approx(value_of(problem, devices, "gpu-time"))


def test_a_model_without_a_bound_leaves_all_loads_unbounded() -> None:
    problem = Problem((), (), (), lambda *_: (), ("a", "b"), rates=(2.0, 1.0))
    assert most_in_all(problem, Goal("throughput")) is None
    assert most_in_all(problem, Goal("throughput", (3.0, 5.0))) == 11.0
    assert most_in_all(problem, Goal("throughput", (3.0, 5.0), total_latency_us=4.0)) == 8.0
