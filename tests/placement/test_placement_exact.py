"""The solver finds what brute force over all assignments finds, for every objective."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.costs.networks import network
from edgedla.placement.api import prepare
from edgedla.placement.problem.evaluate import Evaluation, evaluate, worth
from edgedla.placement.problem.goal import Goal, Solution
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.validate import validate
from edgedla.placement.request import PlacementRequest
from edgedla.placement.solvers.solve import schedule_length, solve
from tests.placement.placement_problems import brute_force, checked, problems, regroup
from tests.placement.shortest_path import shortest_path

# Shrinking a solver problem takes minutes; the failing problem is printed as it was drawn.
CHECKED = checked(16, 40)
ALL = ("GPU", "DLA0", "DLA1")


def agree(problem: Problem, goal: Goal) -> None:
    def measure(p: Problem, e: Evaluation) -> float:
        return schedule_length()(p, e)[0] if goal.objective == "makespan" else worth(p, e, goal.objective)

    expected, _ = brute_force(problem, goal, measure)
    compare(problem, expected, solve(problem, goal, time_limit_s=60))


def compare(problem: Problem, expected: float, solution: Solution) -> None:
    assert solution.value == pytest.approx(expected, rel=2e-4)
    assert solution.optimal
    if solution.best is not None:
        assert validate(problem, solution.best.assignment, solution.best.regions) == ()
        assert evaluate(problem, solution.best.assignment) == solution.best


@CHECKED
@given(problems())
def test_latency_equals_brute_force(problem: Problem) -> None:
    agree(problem, Goal("latency"))


@CHECKED
@given(problems(), st.integers(20, 200))
def test_energy_under_a_latency_bound_equals_brute_force(problem: Problem, bound: int) -> None:
    agree(problem, Goal("energy", float(bound)))


@CHECKED
@given(problems(max_items=6, devices=ALL, pools=False))
def test_throughput_on_three_engines_equals_brute_force(problem: Problem) -> None:
    agree(problem, Goal("throughput"))


@CHECKED
@given(problems(max_items=6, devices=ALL, models=2, pools=False))
def test_rates_of_two_models_equal_brute_force(problem: Problem) -> None:
    agree(problem, Goal("throughput"))


@CHECKED
@given(problems(max_items=6, devices=ALL, models=2, pools=False))
def test_makespan_of_two_models_equals_brute_force(problem: Problem) -> None:
    agree(problem, Goal("makespan"))


@CHECKED
@given(problems(max_items=9, limits=False, pools=False), st.sampled_from(["latency", "energy"]))
def test_highs_finds_the_shortest_path_through_the_states(problem: Problem, objective: str) -> None:
    one_batch = replace(problem, items=tuple(replace(i, batch=1) for i in problem.items))
    regrouped = replace(one_batch, grouping=regroup(one_batch, "fp16"))
    answer = solve(regrouped, Goal(objective), time_limit_s=60)
    assert answer.optimal
    assert answer.value == pytest.approx(shortest_path(regrouped, Goal(objective)), rel=2e-4)


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet50_b1", "googlenet_caffe"])
@pytest.mark.parametrize("objective", ["latency", "energy"])
def test_networks_have_the_same_optimum_by_both_methods(name: str, objective: str) -> None:
    request = PlacementRequest("agx-orin-64gb", precision="int8", objective=objective)
    problem = prepare([network(name)], request).problem(Goal(objective))
    answer = solve(problem, Goal(objective), time_limit_s=60)
    assert answer.value == pytest.approx(shortest_path(problem, Goal(objective)), rel=2e-4)
