"""Makespan of three models: bounds and rounds agree with brute force over all assignments."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.costs.networks import network
from edgedla.placement.api import prepare
from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.baselines import starts
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import Goal, legal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.request import PlacementRequest
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike
from edgedla.placement.solvers.more_models.relaxed import weighed_bound, with_equal_cores
from edgedla.placement.solvers.more_models.solve_many import can_solve, solve_many
from edgedla.placement.solvers.rounds import Rounds
from edgedla.placement.solvers.solve import schedule_length, solve
from edgedla.placement.solvers.stages import whole_model_starts
from edgedla.placement.solvers.states.item_order import part_of
from tests.placement.own_sums import is_legal, least_makespan, makespan
from tests.placement.placement_problems import TIMES, checked, cost, problems
from tests.placement.tiny_networks import tiny_triple

pytestmark = pytest.mark.once

CHECKED = checked(12, 300)
MAKESPAN = Goal("makespan")
ONE_CORE, ALL = ("GPU", "DLA0"), ("GPU", "DLA0", "DLA1")


@CHECKED
@given(st.one_of(problems(8, ONE_CORE, 3), problems(6, ALL, 3)))
def test_bound_and_value_enclose_the_brute_force_makespan_of_many_models(problem: Problem) -> None:
    assert can_solve(problem)
    least = least_makespan(problem)
    solution = solve_many(problem, MAKESPAN, starts(problem), Deadline.after(20.0), value_of=schedule_length())
    assert solution.bound <= least * (1 + 1e-9)
    if solution.best is not None:
        assert solution.value == pytest.approx(makespan(problem, solution.best.assignment))
        assert is_legal(problem, solution.best.assignment)
    assert not solution.optimal or solution.value <= least * (1 + 2e-4)


@st.composite
def with_unlike_cores(draw: Any, models: int) -> Problem:
    """A problem whose cores differ in their times, in what may stand there, and in how they slow down."""
    problem = draw(problems(6, ALL, models))
    items = [
        replace(
            item,
            costs={"GPU": item.cost("GPU"), "DLA0": item.cost("DLA0"), "DLA1": cost(draw(TIMES))},
            allowed=tuple(d for d in ALL if d != draw(st.sampled_from(("DLA0", "DLA1", "", "", "")))),
        )
        if len(item.allowed) > 1
        else item
        for item in problem.items
    ]
    slow = {s: {d: draw(st.sampled_from((1.0, 1.25, 1.5))) for d in sorted(s)} for s in problem.slowdown}
    return replace(problem, items=tuple(items), slowdown=slow)


@CHECKED
@given(st.one_of(with_unlike_cores(2), with_unlike_cores(3)))
def test_bound_and_value_enclose_brute_force_on_unequal_cores(problem: Problem) -> None:
    least = least_makespan(problem)
    assert least_makespan(with_equal_cores(problem)) <= least * (1 + 1e-9)
    solution = solve_many(problem, MAKESPAN, starts(problem), Deadline.after(20.0), value_of=schedule_length())
    assert solution.bound <= least * (1 + 1e-9)
    if solution.best is not None:
        assert is_legal(problem, solution.best.assignment)
        assert solution.value == pytest.approx(makespan(problem, solution.best.assignment))


def test_two_networks_on_cores_that_differ_are_proven() -> None:
    """A power mode of Orin NX 16GB clocks its second core lower."""
    request = PlacementRequest("orin-nx-16gb", precision="int8", objective="makespan", power_mode="10W")
    problem = prepare([network("resnet18"), network("googlenet_caffe")], request).problem(MAKESPAN)
    assert not alike(problem)
    solution = solve(problem, MAKESPAN, starts(problem), time_limit_s=600)
    assert (solution.solver, solution.optimal) == ("rounds", True)


@pytest.mark.long
def test_three_networks_beat_every_whole_model_assignment() -> None:
    request = PlacementRequest("agx-orin-64gb", precision="int8", objective="makespan")
    graphs = [network(name) for name in ("resnet18", "mobilenet_v2", "googlenet_caffe")]
    problem = prepare(graphs, request).problem(MAKESPAN)
    length, whole = schedule_length(), [*starts(problem), *whole_model_starts(problem)]
    solution = solve_many(problem, MAKESPAN, whole, Deadline.after(600.0), value_of=length)
    reached = [evaluate(problem, devices) for devices in whole]
    shortest = min(length(problem, e)[0] for e in reached if legal(problem, e, MAKESPAN))
    assert solution.value < 0.95 * shortest
    assert solution.gap < 0.1


@pytest.mark.parametrize("seed", range(6))
def test_three_tiny_networks_are_proven(seed: int) -> None:
    problem = tiny_triple(seed, (ONE_CORE, ALL)[seed % 2])
    solution = solve(problem, MAKESPAN, starts(problem), time_limit_s=600)
    assert solution.optimal
    assert solution.best is not None
    assert makespan(problem, solution.best.assignment) == pytest.approx(least_makespan(problem), rel=2e-4)


@CHECKED
@given(problems(5, ALL, 3))
def test_a_subset_of_the_models_has_no_longer_makespan(problem: Problem) -> None:
    """Also where more engines slow the part down: without the others fewer may be in use."""
    least = least_makespan(problem)
    for two in itertools.combinations(range(3), 2):
        part, members = part_of(problem, two)
        assert [problem.items[i].name for i in members] == [item.name for item in part.items]
        assert least_makespan(part) <= least * (1 + 1e-9)


@CHECKED
@given(problems(6, ALL, 3), st.data())
def test_a_subset_of_the_models_keeps_its_loadables(problem: Problem, data: st.DataObject) -> None:
    devices = [data.draw(st.sampled_from(item.allowed)) for item in problem.items]
    part, members = part_of(problem, (0, 2))
    formed = [(core, tuple(members[k] for k in g)) for core, g in part.regions([devices[i] for i in members])]
    assert formed == [r for r in problem.regions(devices) if problem.items[r[1][0]].model != 1]


@CHECKED
@given(problems(6, ALL, 3))
def test_weighted_bounds_are_below_the_brute_force_makespan(problem: Problem) -> None:
    assert weighed_bound(problem, MAKESPAN, float("inf"), NEVER) <= least_makespan(problem) * (1 + 1e-9)


@CHECKED
@given(st.one_of(problems(8, ONE_CORE, 3), problems(6, ALL, 3)))
def test_rounds_offer_legal_placements_with_their_lengths(problem: Problem) -> None:
    best = Best(problem, MAKESPAN, schedule_length())
    best.offer_all(starts(problem), NEVER)
    before = best.value
    search = Rounds.of_all(problem, best, NEVER)
    search.begin(NEVER)
    search.run([], NEVER, 0.0)
    assert best.value <= before
    if best.evaluation is not None:
        assert is_legal(problem, best.evaluation.assignment)
        assert makespan(problem, best.evaluation.assignment) == pytest.approx(best.value)


def test_without_time_many_models_get_the_best_start_and_a_bound() -> None:
    problem = tiny_triple(1, ALL)
    solution = solve_many(problem, MAKESPAN, starts(problem), Deadline.after(0.0), value_of=schedule_length())
    reached = [makespan(problem, a) for a in starts(problem) if is_legal(problem, a)]
    assert solution.timed_out
    assert solution.value == pytest.approx(min(reached))
    assert solution.bound <= least_makespan(problem) * (1 + 1e-9)
