"""Properties of every answer: legal, no worse than the baselines, monotone, independent of the order of the nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Tuple

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from edgedla.placement.problem.baselines import baselines
from edgedla.placement.problem.evaluate import Region, evaluate, worth
from edgedla.placement.problem.goal import Goal, Solution, legal
from edgedla.placement.problem.problem import Flow, Problem
from edgedla.placement.problem.validate import validate
from edgedla.placement.solvers.solve import first_core_first, solve
from edgedla.placement.solvers.stages import stage_starts
from tests.amounts import examples
from tests.placement.placement_problems import checked, problems, regroup

CHECKED = checked(16, 40)
ALL = ("GPU", "DLA0", "DLA1")
OBJECTIVES = st.sampled_from(["latency", "energy", "throughput"])


def regions_of(problem: Problem, assignment: Tuple[str, ...]) -> List[Region]:
    return [Region(core, problem.items[g[0]].model, g) for core, g in problem.regions(assignment)]


@CHECKED
@given(problems(max_items=8), OBJECTIVES, st.data())
def test_a_solution_with_one_moved_item_is_validated_with_its_own_regions(problem: Problem, objective: str, data: Any) -> None:
    solution = solve(problem, Goal(objective))
    assume(solution.best is not None)
    assert solution.best is not None
    e = solution.best
    assert validate(problem, e.assignment, e.regions) == ()
    i = data.draw(st.integers(0, len(problem.items) - 1))
    for device in (*problem.devices, "DLA9"):
        if device == e.assignment[i]:
            continue
        moved = (*e.assignment[:i], device, *e.assignment[i + 1 :])
        # The regions that were claimed no longer fit the devices.
        assert validate(problem, moved, e.regions) != ()
    if e.regions:
        assert validate(problem, e.assignment, e.regions[1:]) != ()
        assert validate(problem, e.assignment, (*e.regions, e.regions[0])) != ()
    assert validate(problem, e.assignment[:-1], e.regions) != ()


@CHECKED
@given(problems(max_items=8, limits=False), st.data())
def test_split_or_joined_regions_are_invalid(problem: Problem, data: Any) -> None:
    everything = baselines(problem)["dla-fallback"]
    regions = regions_of(problem, everything)
    assert validate(problem, everything, regions) == ()
    if len(regions) > 1:
        a, b = regions[:2]
        joined = [Region(a.core, a.model, tuple(sorted(a.items + b.items))), *regions[2:]]
        assert {v.rule for v in validate(problem, everything, joined)} & {"convex", "batch", "regroup"}
    big = [r for r in regions if len(r.items) > 1]
    assume(big)
    r = data.draw(st.sampled_from(big))
    k = data.draw(st.integers(1, len(r.items) - 1))
    cut = [x for x in regions if x is not r] + [r._replace(items=r.items[:k]), r._replace(items=r.items[k:])]
    assert validate(problem, everything, cut) != ()


@CHECKED
@given(problems(max_items=6, devices=ALL, models=2, pools=False), OBJECTIVES)
def test_no_legal_baseline_is_better_than_the_solution(problem: Problem, objective: str) -> None:
    goal = Goal(objective)
    known = baselines(problem)
    solution = solve(problem, goal, known.values())
    for name, assignment in known.items():
        e = evaluate(problem, assignment)
        if legal(problem, e, goal):
            assert solution.value <= worth(problem, e, objective) * (1 + 1e-9), name


@CHECKED
@given(problems(max_items=8, limits=False), OBJECTIVES, st.data())
def test_a_cheaper_transition_never_gives_a_worse_optimum(problem: Problem, objective: str, data: Any) -> None:
    before = solve(problem, Goal(objective))
    f = data.draw(st.integers(0, len(problem.flows) - 1))
    share = data.draw(st.floats(0, 1))
    cheaper: Dict[Tuple[str, str], Any] = {k: c.scaled(share) for k, c in problem.flows[f].costs.items()}
    flows = (*problem.flows[:f], replace(problem.flows[f], costs=cheaper), *problem.flows[f + 1 :])
    after = solve(replace(problem, flows=flows), Goal(objective))
    assert after.value <= before.value * (1 + 2e-4)


@CHECKED
@given(problems(max_items=7, limits=False), OBJECTIVES, st.data())
def test_the_order_of_the_nodes_does_not_change_the_cost(problem: Problem, objective: str, data: Any) -> None:
    # Of one batch: layers of another batch wait, or stand alone, by their place in TensorRT's list, which is the nodes'
    # order. Its loadables, and their cost, then really differ.
    problem = replace(problem, items=tuple(replace(i, batch=1) for i in problem.items))
    order = topological(problem, data)
    place = {old: new for new, old in enumerate(order)}
    flows: List[Flow] = [
        replace(
            f, producer=None if f.producer is None else place[f.producer], consumers=tuple(sorted(place[c] for c in f.consumers))
        )
        for f in problem.flows
    ]
    links = tuple(replace(k, producer=place[k.producer], consumer=place[k.consumer]) for k in problem.links)
    bare = replace(problem, items=tuple(problem.items[i] for i in order), flows=tuple(flows), links=links)
    other = replace(bare, grouping=regroup(bare, "int8"))
    same = replace(problem, grouping=regroup(problem, "int8"))
    assert solve(other, Goal(objective)).value == pytest.approx(solve(same, Goal(objective)).value, rel=2e-4)


@CHECKED
@given(problems(max_items=6, devices=ALL, pools=False))
def test_of_mirrored_solutions_the_one_starting_on_dla0_is_returned(problem: Problem) -> None:
    goal = Goal("throughput")
    e = solve(problem, goal).best
    assume(e is not None and "DLA1" in e.assignment)
    assert e is not None
    assert next(d for d in e.assignment if d != "GPU") == "DLA0"
    swap = {"DLA0": "DLA1", "DLA1": "DLA0"}
    other = evaluate(problem, [swap.get(d, d) for d in e.assignment])
    solution = Solution(other, worth(problem, other, "throughput"), 0.0, "highs", 1, 0.0, False)
    assert first_core_first(problem, goal, solution).best == e


def topological(problem: Problem, data: Any) -> List[int]:
    """A random topological order of all items of a one-model problem."""
    waiting = {i: set(problem.predecessors(i)) for i in range(len(problem.items))}
    order: List[int] = []
    while waiting:
        ready = sorted(i for i, sources in waiting.items() if not sources)
        chosen = data.draw(st.sampled_from(ready))
        order.append(chosen)
        del waiting[chosen]
        for sources in waiting.values():
            sources.discard(chosen)
    return order


@CHECKED
@given(problems(max_items=8, devices=ALL, limits=False))
def test_every_stage_start_is_legal_and_from_the_allowed_devices(problem: Problem) -> None:
    for assignment in stage_starts(problem, Goal("throughput")):
        assert all(d in item.allowed for d, item in zip(assignment, problem.items))
        assert legal(problem, evaluate(problem, assignment), Goal("throughput"))


def test_a_search_that_runs_out_of_time_returns_the_start_and_a_bound_below_it() -> None:
    @settings(max_examples=examples(5), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(problems(max_items=10, devices=ALL, limits=False))
    def check(problem: Problem) -> None:
        start = ("GPU",) * len(problem.items)
        solution = solve(problem, Goal("throughput"), [start], time_limit_s=0.0)
        assert solution.best is not None
        assert solution.value <= worth(problem, evaluate(problem, start), "throughput")
        assert 0 <= solution.bound <= solution.value
        assert solution.optimal or solution.timed_out

    check()
