"""Solvers against brute force with independent sums."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.placement.problem.baselines import baselines
from edgedla.placement.problem.evaluate import Region, evaluate, worth
from edgedla.placement.problem.goal import Goal, legal
from edgedla.placement.problem.problem import Flow, Item, Limits, Problem
from edgedla.placement.solvers.program.solve_program import solve_program
from edgedla.placement.solvers.solve import solve
from tests.amounts import amount, examples
from tests.placement.own_sums import is_legal, least, value_of, waits_in_a_circle
from tests.placement.placement_problems import assignments, checked, cost, problems, regroup

ALL = ("GPU", "DLA0", "DLA1")
QUICK = checked(12, 30)
MANY = settings(QUICK, max_examples=examples(amount(30, 500)))


def agree(problem: Problem, objective: str, bound: float | None = None) -> None:
    # Far beyond what these take: a loaded machine must not decide what is proven.
    solution = solve(problem, Goal(objective, bound), time_limit_s=600)
    expected = least(problem, objective, bound)
    assert solution.value == pytest.approx(expected, rel=2e-4)
    assert solution.optimal
    if solution.best is not None:
        assert is_legal(problem, solution.best.assignment, bound)


@QUICK
@given(problems(max_items=7), st.sampled_from(["latency", "energy"]))
def test_one_core_equals_independent_sums(problem: Problem, objective: str) -> None:
    agree(problem, objective)


@QUICK
@given(problems(max_items=5, devices=ALL, models=2, pools=False), st.sampled_from(["latency", "energy", "throughput"]))
def test_two_models_on_three_engines_equal_independent_sums(problem: Problem, objective: str) -> None:
    agree(problem, objective)


@QUICK
@given(problems(max_items=6), st.integers(20, 200))
def test_energy_under_a_latency_bound_equals_independent_sums(problem: Problem, bound: int) -> None:
    agree(problem, "energy", float(bound))


def twice(problem: Problem) -> Problem:
    """The only model of a problem two times."""
    n = len(problem.items)
    items = (*problem.items, *(replace(i, model=1, name=f"again {i.name}") for i in problem.items))
    flows = tuple(
        replace(f, model=1, producer=None if f.producer is None else f.producer + n, consumers=tuple(c + n for c in f.consumers))
        for f in problem.flows
    )
    links = tuple(replace(k, producer=k.producer + n, consumer=k.consumer + n) for k in problem.links)
    both = replace(
        problem,
        items=items,
        flows=(*problem.flows, *flows),
        links=(*problem.links, *links),
        models=("m0", "m1"),
        rates=(1.0, 1.0),
    )
    return replace(both, grouping=regroup(both, "int8"))


@QUICK
@given(problems(max_items=3, devices=ALL, pools=False))
def test_two_equal_models_equal_independent_sums(problem: Problem) -> None:
    problem = twice(problem)
    agree(problem, "throughput")
    direct = solve_program(problem, Goal("throughput"))
    assert direct.value == pytest.approx(least(problem, "throughput"), rel=2e-4)


@pytest.mark.slow
@MANY
@given(problems(max_items=6), st.sampled_from(["latency", "energy"]))
def test_one_core_equals_independent_sums_on_many_cases(problem: Problem, objective: str) -> None:
    agree(problem, objective)


@pytest.mark.slow
@MANY
@given(problems(max_items=5, devices=ALL, models=2, pools=False), st.sampled_from(["latency", "energy", "throughput"]))
def test_two_models_on_three_engines_equal_independent_sums_on_many_cases(problem: Problem, objective: str) -> None:
    agree(problem, objective)


@pytest.mark.slow
@MANY
@given(problems(max_items=6, devices=ALL, pools=False), st.sampled_from(["latency", "energy", "throughput"]))
def test_three_engines_equal_independent_sums_on_many_cases(problem: Problem, objective: str) -> None:
    agree(problem, objective)


@pytest.mark.slow
@MANY
@given(problems(max_items=6), st.integers(20, 200))
def test_energy_under_a_latency_bound_equals_independent_sums_on_many_cases(problem: Problem, bound: int) -> None:
    agree(problem, "energy", float(bound))


@QUICK
@given(problems(max_items=5, devices=ALL, models=2))
def test_every_assignment_is_worth_its_independent_sum(problem: Problem) -> None:
    for assignment in list(assignments(problem))[:60]:
        e = evaluate(problem, assignment)
        for objective in ("latency", "energy", "throughput"):
            assert worth(problem, e, objective) == pytest.approx(value_of(problem, assignment, objective))
        assert legal(problem, e, Goal("latency")) == is_legal(problem, assignment)


def line(devices: tuple, allowed: list, flows: list, **kwargs: object) -> Problem:
    """Items of 10 us each with these allowed devices; `flows` as (producer, consumers)."""
    items = tuple(
        Item(f"l{k}", 0, (k,), tuple(a), {"GPU": cost(10), "DLA": cost(10)}, legal=len(a) > 1) for k, a in enumerate(allowed)
    )
    free = {pair: cost(0) for pair in (("GPU", "DLA"), ("DLA", "GPU"), ("DLA", "DLA"))}
    every = tuple(Flow(f"t{n}", 0, p, tuple(c), not c, free) for n, (p, c) in enumerate(flows))
    bare = Problem(items, every, (), lambda problem, core, members: (members,), devices=devices, **kwargs)  # type: ignore[arg-type]
    return replace(bare, grouping=regroup(bare, "int8"))


def test_loadables_of_two_cores_in_a_cycle_are_illegal() -> None:
    # l0 -> l3 and l1 -> l2, with {l0, l2} on one core and {l1, l3} on the other: neither can begin.
    flows = [(None, (0, 1)), (0, (2, 3)), (1, (2, 3)), (2, ()), (3, ())]
    problem = line(ALL, [ALL] * 4, flows)
    groups = (("DLA0", (0, 2)), ("DLA1", (1, 3)))
    e = evaluate(problem, ("DLA0", "DLA1", "DLA0", "DLA1"))
    crossed = replace(e, regions=tuple(Region(core, 0, items) for core, items in groups))
    assert waits_in_a_circle(problem, [set(items) for _, items in groups])
    assert legal(problem, e, Goal("throughput"))
    assert not legal(problem, crossed, Goal("throughput"))
    assert legal(problem, evaluate(problem, ("DLA0",) * 4), Goal("throughput"))


def test_the_contention_factor_decides_between_one_engine_and_two() -> None:
    flows = [(None, (0, 1)), (0, ()), (1, ())]
    for factor, expected in ((1.5, 15.0), (3.0, 20.0)):
        both = {frozenset(("GPU", "DLA0")): {"GPU": factor, "DLA0": factor}}
        problem = line(("GPU", "DLA0"), [("GPU", "DLA0")] * 2, flows, slowdown=both)
        assert solve(problem, Goal("throughput"), time_limit_s=10).value == pytest.approx(expected)


def test_the_tensorrt_baseline_drops_loadables_above_the_cap() -> None:
    # l1 runs on the GPU alone, so the core gets {l0} and {l2, l3}; one loadable may stay: the larger one.
    flows = [(None, (0,)), (0, (1,)), (1, (2,)), (2, (3,)), (3, ())]
    allowed = [("GPU", "DLA0"), ("GPU",), ("GPU", "DLA0"), ("GPU", "DLA0")]
    problem = line(("GPU", "DLA0"), allowed, flows, limits=Limits(loadables_per_core=1))
    known = baselines(problem)
    assert known["dla-fallback"] == ("DLA0", "GPU", "DLA0", "DLA0")
    assert known["tensorrt"] == ("GPU", "GPU", "DLA0", "DLA0")
