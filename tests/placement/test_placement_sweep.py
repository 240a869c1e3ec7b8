"""The sweep over partial placements: its loads are exact, its bounds hold at every step, its result is the minimum."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.costs.cost import Cost
from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.evaluate import evaluate, worth
from edgedla.placement.problem.goal import Goal, legal
from edgedla.placement.problem.problem import Flow, Item, Problem
from edgedla.placement.problem.validate import validate
from edgedla.placement.solvers.bounds.fractional import alike, floor, floor_on
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import best_prices, weights_around
from edgedla.placement.solvers.busiest.loads_ahead import LoadsAhead
from edgedla.placement.solvers.busiest.rows import LONG_ROW, Rows, first_row, merged_rows, row_maxima, undominated
from edgedla.placement.solvers.busiest.solve_stream import solve_stream
from edgedla.placement.solvers.busiest.sweep import beam, sweep
from edgedla.placement.solvers.solve import solve
from edgedla.placement.solvers.stages import balanced_cuts, staged
from edgedla.placement.solvers.states.columns import Columns
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.states.state_graph import StateGraph, least_by, prices_of
from tests.amounts import amount
from tests.placement.placement_problems import assignments, brute_force, checked, cost, problems, regroup
from tests.placement.tuple_states import mirrored, rows_of, start, step

pytestmark = pytest.mark.once

CHECKED = checked(20, 60)
ALL = ("GPU", "DLA0", "DLA1")
STREAM = Goal("throughput")


@pytest.mark.parametrize("columns", [1, 2, 3, 7, LONG_ROW, LONG_ROW + 1])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_row_maxima_equal_the_maximum_of_each_row(columns: int, rows: int) -> None:
    values = np.random.default_rng(columns).normal(size=(rows, columns))
    assert row_maxima(values).tolist() == [max(row) for row in values.tolist()]


def of_one_batch(problem: Problem, rates: Tuple[float, ...]) -> Problem:
    """The sweep knows the number of loadables exactly where all layers have one batch."""
    same = replace(problem, items=tuple(replace(i, batch=1) for i in problem.items), rates=rates)
    return replace(same, grouping=regroup(same, "int8"))


def period(problem: Problem, evaluation: object) -> float:
    return worth(problem, evaluation, "throughput")  # type: ignore[arg-type]


@CHECKED
@given(problems(max_items=7, devices=ALL, models=2, limits=False), st.integers(0, 1000))
def test_steps_add_up_to_the_loads_and_prices_are_lower_bounds(problem: Problem, seed: int) -> None:
    problem = of_one_batch(problem, (1.0, 2.5))
    frontier = Frontier(problem, ALL)
    prices = Prices.both_ways(frontier, weights_around(np.array([0.4, 0.35, 0.25])))
    chosen = list(itertools.islice(assignments(problem), 4000))
    for assignment in random.Random(seed).sample(chosen, min(len(chosen), 20)):
        state, load = start(frontier), np.zeros(3)
        trail = [(0, state, load)]
        for i, device in enumerate(assignment):
            state, added = step(frontier, i, state, ALL.index(device))
            load = load + added
            trail.append((i + 1, state, load))
        e = evaluate(problem, assignment)
        true = [sum(r * e.loads[m, d].latency_us for m, r in enumerate(problem.rates) if (m, d) in e.loads) for d in ALL]
        assert load == pytest.approx(true)
        for i, state, so_far in trail:
            rest = prices.rest(i, rows_of(Columns(frontier, i), [state]))
            assert (rest[0] <= prices.weights @ (load - so_far) + 1e-6).all()
            if set(assignment) >= {"DLA0", "DLA1"}:
                # These bounds are about placements that use every core.
                row = first_row(3)._replace(loads=so_far[None, :], pool=so_far[None, 1:].sum(axis=1))
                bound = prices.bounds(row, rest)[0]
                assert bound <= (prices.weights @ load).max() + 1e-6


@CHECKED
@given(problems(max_items=6, devices=ALL, models=2, limits=False))
def test_mirrored_states_have_equal_steps(problem: Problem) -> None:
    problem = of_one_batch(problem, (1.0, 1.0))
    frontier = Frontier(problem, ALL)
    swap = (0, 2, 1)
    for assignment in itertools.islice(assignments(problem), 50):
        one = other = start(frontier)
        for i, device in enumerate(ALL.index(d) for d in assignment):
            one, load = step(frontier, i, one, device)
            other, image = step(frontier, i, other, swap[device])
            assert other == mirrored(one)
            assert image == pytest.approx([load[k] for k in swap])


@CHECKED
@given(
    st.one_of(problems(amount(7, 8), ALL, limits=False), problems(amount(7, 8), ALL, 2, limits=False)),
    st.sampled_from([1.0, 2.5]),
)
def test_the_sweep_proves_the_brute_force_period(problem: Problem, rate: float) -> None:
    problem = of_one_batch(problem, (1.0, rate)[: len(problem.models)])
    value, _ = brute_force(problem, STREAM, period)
    solution = solve_stream(problem, STREAM)
    assert solution.value == pytest.approx(value, rel=2e-4, abs=1e-6)
    assert value * (1 - 2e-4) - 1e-6 <= solution.bound <= value + 1e-6


@CHECKED
@given(problems(max_items=7, devices=ALL), st.sampled_from([1.1, 1.5]))
def test_the_sweep_keeps_a_latency_bound(problem: Problem, loose: float) -> None:
    problem = of_one_batch(problem, (1.0,))
    least = min(worth(problem, evaluate(problem, a), "latency") for a in assignments(problem))
    goal = Goal("throughput", least * loose)
    value, _ = brute_force(problem, goal, period)
    solution = solve_stream(problem, goal)
    assert solution.bound <= value + 1e-6
    if solution.best is not None:
        assert legal(problem, solution.best, goal)
        assert solution.value >= value - 1e-6


@CHECKED
@given(problems(max_items=7, devices=ALL, models=2))
def test_the_sweeps_bound_holds_under_limits_that_it_ignores(problem: Problem) -> None:
    value, _ = brute_force(problem, STREAM, period)
    solution = solve_stream(problem, STREAM)
    assert solution.bound <= value + 1e-6
    assert solution.value >= value - 1e-6


@CHECKED
@given(problems(max_items=7, devices=ALL, models=2), st.sampled_from(["latency", "energy", "throughput", "makespan"]))
def test_the_floor_is_a_lower_bound_of_every_assignment(problem: Problem, objective: str) -> None:
    least = min(worth(problem, evaluate(problem, a), objective) for a in assignments(problem))
    assert 0 < floor(problem, Goal(objective)) <= least + 1e-6


@CHECKED
@given(problems(max_items=7, devices=ALL, limits=False))
def test_best_prices_give_a_lower_bound_of_every_period(problem: Problem) -> None:
    problem = of_one_batch(problem, (1.0,))
    frontier = Frontier(problem, ALL)
    factors = np.array([problem.factor(frozenset(ALL), d) for d in ALL])
    lowest, weights = floor_on(problem, STREAM, ALL)
    assert weights.sum() == pytest.approx(1)
    bound, prices = best_prices(frontier, factors, weights)
    assert bound >= lowest - 1e-3
    assert bound == pytest.approx(prices.root.max())
    everywhere = [a for a in assignments(problem) if set(a) == set(ALL)]
    assert all(bound <= period(problem, evaluate(problem, a)) + 1e-6 for a in everywhere)


@CHECKED
@given(problems(max_items=8, devices=ALL, models=2, limits=False), st.sampled_from([2, 4, 9]), st.sampled_from([2, 5, 100]))
def test_bounds_hold_for_any_beam_width_and_state_limit(problem: Problem, width: int, most_states: int) -> None:
    problem = of_one_batch(problem, (1.0, 1.5))
    frontier = Frontier(problem, ALL)
    factors = np.array([problem.factor(frozenset(ALL), d) for d in ALL])
    everywhere = [a for a in assignments(problem) if set(a) == set(ALL)]
    least = min((period(problem, evaluate(problem, a)) for a in everywhere), default=float("inf"))
    evaluated = [evaluate(problem, a) for a in assignments(problem)]
    limit = 1.3 * min(period(problem, e) for e in evaluated)
    least_of_any = min(
        max(
            f * sum(r * e.loads[m, d].latency_us for m, r in enumerate(problem.rates) if (m, d) in e.loads)
            for d, f in zip(ALL, factors)
        )
        for e in evaluated
    )
    same, never = alike(problem), NEVER
    weights = weights_around(np.array([0.4, 0.3, 0.3])) * factors
    arrays = StateArrays(frontier, same)
    graph = StateGraph(arrays, prices_of(arrays, weights), limit, most_states, never)
    assert min(graph.root.max(), graph.dropped, limit) <= least + 1e-6
    if not graph.empty:
        swept = sweep(graph, factors, limit, width, LoadsAhead(graph, factors, limit), never)
        assert swept.bound <= least + 1e-6
        if swept.complete:
            # Placements that leave an engine out count there too, at the slowdown of all.
            assert swept.bound >= min(limit, least_of_any) - 1e-6
    for merge in (False, True):
        prices = Prices.both_ways(frontier, weights)
        bound, met = beam(arrays, prices, factors, limit, width, merge, never)
        assert bound <= least + 1e-6
        assert all(len(a) == len(problem.items) for a in met)


@CHECKED
@given(st.lists(st.tuples(st.integers(0, 2), *[st.integers(0, 12)] * 4), min_size=1, max_size=600))
def test_only_dominated_rows_are_dropped(rows: list) -> None:
    table = np.array(sorted(rows), dtype=float)
    # The pool of merged rows is more than their loads add up to.
    table[:, 4] = np.maximum(table[:, 4] - 9, 0) + table[:, 2] + table[:, 3]
    state, loads, pool = table[:, 0].astype(int), table[:, 1:4], table[:, 4]
    keep = undominated(state, loads, pool)
    kept = table[keep]
    for row in table[~keep]:
        assert ((kept[:, 0] == row[0]) & (kept[:, 1:] <= row[1:]).all(axis=1)).any()
    for k in range(len(kept)):
        # In one block nothing is overlooked.
        if len(table) <= 128:
            others = np.delete(kept, k, axis=0)
            assert not ((others[:, 0] == kept[k, 0]) & (others[:, 1:] <= kept[k, 1:]).all(axis=1)).any()


def long_chain(n: int) -> Problem:
    """n items one behind the other; every third is slow on the DLA."""
    items = tuple(Item(f"l{k}", 0, (k,), ALL, {"GPU": cost(4 + k % 5), "DLA": cost(9 if k % 3 else 15)}) for k in range(n))
    between: dict = {("GPU", "DLA"): cost(6), ("DLA", "GPU"): cost(6), ("DLA", "DLA"): Cost()}
    flows = tuple(Flow(f"t{k}", 0, k - 1 if k else None, (k,) if k < n else (), k == n, between) for k in range(n + 1))
    bare = Problem(items, flows, (), lambda p, c, m: (m,), ("net",), cost(20))
    return replace(bare, grouping=regroup(bare, "int8"))


@pytest.mark.parametrize("objective", ["latency", "energy", "throughput", "makespan"])
def test_without_time_a_solution_still_has_a_bound(objective: str) -> None:
    problem = long_chain(600)
    solution = solve(problem, Goal(objective), [("GPU",) * 600], time_limit_s=0.0)
    assert 0 < solution.bound <= solution.value < float("inf")
    assert solution.gap < 0.8


def test_a_long_chain_is_balanced_and_proven_by_the_sweep_alone() -> None:
    problem = long_chain(120)
    solution = solve_stream(problem, STREAM, [("GPU",) * 120], Deadline.after(60.0))
    assert solution.optimal
    assert solution.value == pytest.approx(worth(problem, evaluate(problem, solution.best.assignment), "throughput"))  # type: ignore[union-attr]
    again = solve_stream(problem, STREAM, [("GPU",) * 120], Deadline.after(60.0))
    assert again.best == solution.best
    assert again.rounds == solution.rounds


def test_there_is_room_for_so_many_states_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = long_chain(40)
    frontier, factors = Frontier(problem, ALL), np.ones(3)
    arrays = StateArrays(frontier, True, merged=True)
    prices = prices_of(arrays, weights_around(np.array([0.4, 0.3, 0.3])))
    whole = StateGraph(arrays, prices, 1e3, 10**6, NEVER)
    best = sweep(whole, factors, 1e3, 10**6, LoadsAhead(whole, factors, 1e3), NEVER)
    monkeypatch.setattr("edgedla.placement.solvers.states.state_graph.ALL_STATES", 50)
    monkeypatch.setattr("edgedla.placement.solvers.states.state_graph.BEYOND", 2)
    part = StateGraph(arrays, prices, 1e3, 10**6, NEVER)
    assert max(len(states) for states in part.states[25:]) <= 2 < max(len(states) for states in whole.states[25:])
    assert part.dropped < whole.dropped == float("inf")
    assert sweep(part, factors, 1e3, 10**6, LoadsAhead(part, factors, 1e3), NEVER).bound <= best.bound


def crossed() -> Problem:
    """Two branches: a on DLA0 feeds b on DLA1, c on DLA1 feeds d on DLA0, each fast there alone; both end on the GPU."""
    fast, slow = cost(1), cost(100)
    items = [
        Item(name, 0, (k,), ALL, {"GPU": slow, core: fast, other: slow})
        for k, (name, core, other) in enumerate(
            [("a", "DLA0", "DLA1"), ("b", "DLA1", "DLA0"), ("c", "DLA1", "DLA0"), ("d", "DLA0", "DLA1")]
        )
    ]
    items += [Item(name, 0, (k,), ("GPU",), {"GPU": fast}, legal=False) for k, name in ((4, "e"), (5, "f"))]
    free: dict = {("GPU", "DLA"): cost(0), ("DLA", "GPU"): cost(0), ("DLA", "DLA"): Cost()}
    edges = [(None, (0, 2)), (0, (1,)), (1, (4,)), (2, (3,)), (3, (5,)), (4, ()), (5, ())]
    flows = tuple(Flow(f"t{k}", 0, p, readers, not readers, free) for k, (p, readers) in enumerate(edges))
    bare = Problem(tuple(items), flows, (), lambda p, c, m: (m,), ("net",), cost(1))
    return replace(bare, grouping=regroup(bare, "int8"))


@pytest.mark.parametrize("objective", ["throughput", "makespan"])
def test_placements_with_cyclic_regions_on_two_cores_are_not_returned(objective: str) -> None:
    problem = crossed()
    best = evaluate(problem, ("DLA0", "DLA1", "DLA1", "DLA0", "GPU", "GPU"))
    assert [r.items for r in best.regions] == [(0, 3), (1, 2)]
    assert not legal(problem, best, Goal(objective))
    solution = solve(problem, Goal(objective))
    assert solution.best is not None
    assert validate(problem, solution.best.assignment, solution.best.regions) == ()
    assert solution.value > worth(problem, best, objective)


@CHECKED
@given(problems(max_items=7, devices=ALL, pools=False))
def test_balanced_cuts_are_ascending_and_legal(problem: Problem) -> None:
    for order in itertools.permutations(ALL, 2):
        cuts = balanced_cuts(problem, order)
        if cuts is not None:
            assert list(cuts) == sorted(cuts)
            assert all(0 <= c <= len(problem.items) for c in cuts)
            devices = staged(problem, order, cuts)
            assert all(d in item.allowed for d, item in zip(devices, problem.items))


def test_balanced_cuts_of_a_chain_equalise_the_loads() -> None:
    """300 equal layers, three times as slow on the DLA: the GPU takes three fifths of them."""
    items = tuple(Item(f"l{k}", 0, (k,), ALL, {"GPU": cost(10), "DLA": cost(30)}, traffic_bytes={}) for k in range(300))
    free = {pair: cost(0) for pair in (("GPU", "DLA"), ("DLA", "GPU"), ("DLA", "DLA"))}
    flows = tuple(Flow(f"t{k}", 0, k, (k + 1,) if k < 299 else (), k == 299, free) for k in range(300))
    problem = Problem(items, flows, (), lambda problem, core, members: (members,), loadable=cost(60))
    cuts = balanced_cuts(problem, ("GPU", "DLA0", "DLA1"))
    assert cuts is not None
    e = evaluate(problem, staged(problem, ("GPU", "DLA0", "DLA1"), cuts))
    loads = [e.load(problem, d).latency_us for d in ALL]
    assert max(loads) - min(loads) <= 60
    assert max(loads) <= 300 * 10 * 0.6 + 60


@pytest.mark.parametrize("largest", [0, 1, 2, LONG_ROW, LONG_ROW + 1, 5 * LONG_ROW])
def test_least_by_equals_the_minimum_of_each_group(largest: int) -> None:
    random_rows = np.random.default_rng(largest)
    group = np.repeat([3, 1, 0, 1], [largest, min(largest, 2), 1, 1])
    value = random_rows.permutation(random_rows.random((len(group), 2)))
    least = least_by(group, value, 5)
    for g in range(5):
        rows = value[group == g]
        assert (least[g] == (rows.min(axis=0) if len(rows) else np.inf)).all()


def test_rows_are_merged_without_a_known_placement() -> None:
    """As long as no placement is known; the boxes cannot grow any further then."""
    count = 12
    loads = np.arange(3.0 * count).reshape(count, 3)
    zeros = np.zeros(count, int)
    rows = Rows(loads, loads, loads[:, 1:].sum(axis=1), np.arange(count), loads[:, 0], zeros, zeros, zeros > 0)
    merged = merged_rows(rows, 4, np.inf)
    assert sorted(merged.state) == list(range(count))
