"""Two cores pooled into one: the pool's bounds hold for every placement on both cores, and so do guided bounds."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Iterator, List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.costs.cost import Cost
from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.problem.problem import Flow, Item, Problem
from edgedla.placement.solvers.bounds.fractional import engine_sets, floor_on
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import weights_around
from edgedla.placement.solvers.busiest.engine_search import EngineSearch
from edgedla.placement.solvers.busiest.pooled_cores import PooledCores
from edgedla.placement.solvers.busiest.rows import first_row, merged_rows
from edgedla.placement.solvers.busiest.solve_stream import solve_stream
from edgedla.placement.solvers.busiest.sweep import beam
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import narrow_order, reordered
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.states.state_graph import prices_of
from tests.amounts import amount
from tests.placement.placement_problems import assignments, checked, cost, problems, regroup
from tests.placement.test_placement_sweep import ALL, STREAM, of_one_batch, period
from tests.placement.tuple_states import counted_step, mirrored, rows_of, start, step

pytestmark = pytest.mark.once

CHECKED = checked(20, 60)
WEIGHTS = weights_around(np.array([0.4, 0.3, 0.3]))


def on_both_cores(problem: Problem) -> Iterator[Tuple[str, ...]]:
    return (a for a in assignments(problem) if set(a) == set(ALL))


def pooled(problem: Problem) -> PooledCores:
    return PooledCores(problem, ALL, factors_of(problem), WEIGHTS * factors_of(problem))


def factors_of(problem: Problem) -> np.ndarray:
    return np.array([problem.factor(frozenset(ALL), d) for d in ALL])


@CHECKED
@given(problems(max_items=8, devices=ALL, models=2, limits=False), st.booleans(), st.integers(0, 1000))
def test_state_arrays_step_like_single_states(problem: Problem, same: bool, seed: int) -> None:
    problem = of_one_batch(problem, (1.0, 2.5))
    frontier = Frontier(problem, ALL)
    arrays = StateArrays(frontier, same)
    rng = random.Random(seed)
    states = [start(frontier)]
    for i, allowed in enumerate(frontier.allowed):
        columns = arrays.columns[i + 1]
        targets, edges, symmetric = arrays.edges(i, rows_of(arrays.columns[i], states))
        expected = [(s, d, *counted_step(frontier, i, s, d)) for s in states for d in allowed]
        assert edges.device.tolist() == [d for _, d, *_ in expected]
        assert edges.load == pytest.approx(np.array([load for _, _, _, load, _ in expected]))
        met: dict = {}
        for e, (_, _, behind, _, _) in enumerate(expected):
            stored = mirrored(behind) if edges.swapped[e] else behind
            at = int(edges.target[e])
            assert met.setdefault(at, stored) == stored
            assert (targets[at] == rows_of(columns, [stored])[0]).all()
            assert symmetric[at] == (same and mirrored(stored) == stored)
        # Each state once, of two mirror images one.
        assert len({frozenset((s, mirrored(s)) if same else (s,)) for s in met.values()}) == len(met) == len(targets)
        for device in allowed:
            added = arrays.counted_step(i, rows_of(arrays.columns[i], states), device)[2]
            assert added.tolist() == [n for _, d, _, _, n in expected if d == device]
        states = rng.sample(list(met.values()), min(len(met), 12))


@CHECKED
@given(problems(max_items=8, devices=ALL, models=2))
def test_narrow_order_is_topological_and_keeps_the_sums(problem: Problem) -> None:
    problem = of_one_batch(problem, (1.0, 1.5))
    order = narrow_order(problem)
    assert sorted(order) == list(range(len(problem.items)))
    assert [problem.items[i].model for i in order] == [i.model for i in problem.items]
    other = reordered(problem, order)
    assert all(f.producer is None or all(f.producer < c for c in f.consumers) for f in other.flows)
    one, two = Frontier(problem, ALL), Frontier(other, ALL)
    for assignment in itertools.islice(assignments(problem), 60):
        totals: List[np.ndarray] = []
        for frontier, devices in ((one, assignment), (two, [assignment[i] for i in order])):
            state, total = start(frontier), np.zeros(3)
            for i, d in enumerate(devices):
                state, added = step(frontier, i, state, ALL.index(d))
                total = total + added
            totals.append(total)
        assert totals[0] == pytest.approx(totals[1])


def ladder(levels: int) -> Problem:
    """Levels of a pyramid, each read by a head of its own; the heads come last, one after the other."""
    times = {"GPU": cost(5), "DLA": cost(9)}
    items = tuple(Item(f"l{k}", 0, (k,), ALL, times) for k in range(2 * levels))
    between: dict = {("GPU", "DLA"): cost(3), ("DLA", "GPU"): cost(3), ("DLA", "DLA"): Cost()}
    flows = [Flow("in", 0, None, (0,), False, between)]
    for k in range(levels):
        readers = (k + 1, levels + k) if k + 1 < levels else (levels + k,)
        flows.append(Flow(f"t{k}", 0, k, readers, False, between))
        flows.append(Flow(f"h{k}", 0, levels + k, (), True, between))
    bare = Problem(items, tuple(flows), (), lambda p, c, m: (m,), ("net",), cost(4))
    return replace(bare, grouping=regroup(bare, "int8"))


def test_narrow_order_puts_heads_after_the_level_they_read() -> None:
    levels = 6
    problem = ladder(levels)
    order = narrow_order(problem)
    alive = [len(a) for a in Frontier(problem, ALL).live_items]
    narrow = [len(a) for a in Frontier(reordered(problem, order), ALL).live_items]
    assert max(alive) == levels
    assert max(narrow) == 1
    # The last item's core pays for the call of the engine.
    assert order[-1] == 2 * levels - 1
    assert solve_stream(problem, STREAM, [("GPU",) * 2 * levels]).optimal


@CHECKED
@given(problems(max_items=7, devices=ALL, models=2, limits=False), st.integers(1, 2))
def test_the_pooled_bound_is_below_every_placement_on_both_cores(problem: Problem, models: int) -> None:
    problem = of_one_batch(problem, (1.0, 1.5))
    least = min((period(problem, evaluate(problem, a)) for a in on_both_cores(problem)), default=INFINITY)
    pool = pooled(problem)
    for floor, limit in ((1e-3, 1e4), (least * 0.99, least * 1.1), (least * 0.5, least * 0.9)):
        for bound in pool.bounds(floor, limit, NEVER):
            assert bound <= max(least, floor) + 1e-6


@CHECKED
@given(problems(max_items=7, devices=ALL, limits=False))
def test_the_divided_pool_is_a_placement_cut_at_every_item(problem: Problem) -> None:
    problem = of_one_batch(problem, (1.0,))
    pool = pooled(problem)
    assert pool.shortest() == ()
    if pool.guide(StateArrays(Frontier(problem, ALL), True), 1e4, NEVER) is None:
        return
    for divided in (pool.shortest(), pool.beam(16, 1, NEVER)):
        assert set(divided) <= set(assignments(problem))
        on_dla = {tuple(d != "GPU" for d in a) for a in divided}
        assert len(on_dla) <= 1
        assert len(divided) == sum(next(iter(on_dla), ()))


@CHECKED
@given(
    st.one_of(problems(amount(7, 8), ALL, limits=False), problems(amount(7, 8), ALL, 2, limits=False)),
    st.sampled_from([1.0, 1.05, 1.4]),
    st.sampled_from([2, 5, 40, 4000]),
)
def test_a_guided_beam_keeps_every_placement_below_its_bound(problem: Problem, loose: float, width: int) -> None:
    problem = of_one_batch(problem, (1.0,) * len(problem.models))
    frontier, factors = Frontier(problem, ALL), factors_of(problem)
    periods = {a: period(problem, evaluate(problem, a)) for a in on_both_cores(problem)}
    least = min(periods.values(), default=INFINITY)
    limit = min(least * loose, 1e4) + 1e-3
    arrays = StateArrays(frontier, True)
    guide = pooled(problem).guide(arrays, limit, NEVER)
    if guide is None:
        # No pooled placement is below the limit.
        assert least >= limit
        return
    prices = Prices.both_ways(frontier, WEIGHTS * factors)
    bound, met = beam(guide, prices, factors, limit, width, True, NEVER)
    assert bound <= least + 1e-6
    if width == 4000 and least < INFINITY:
        # Placements on fewer engines count there too, at the slowdown of all.
        reached = [(factors * loads_of(problem, a)).max() for a in assignments(problem)]
        assert bound >= min(least, *reached) - 1e-6
        assert met


def loads_of(problem: Problem, assignment: Tuple[str, ...]) -> np.ndarray:
    e = evaluate(problem, assignment)
    return np.array([sum(v.latency_us for (_, d), v in e.loads.items() if d == device) for device in ALL])


@CHECKED
@given(st.one_of(problems(6, ALL, limits=False), problems(6, ALL, 2, limits=False)), st.integers(0, 100))
def test_a_guide_is_a_lower_bound_of_every_placement(problem: Problem, seed: int) -> None:
    problem = of_one_batch(problem, (1.0,) * len(problem.models))
    frontier, factors = Frontier(problem, ALL), factors_of(problem)
    everywhere = list(on_both_cores(problem))
    if not everywhere:
        return
    longest = max(period(problem, evaluate(problem, a)) for a in everywhere)
    guide = pooled(problem).guide(StateArrays(frontier, False), longest + 1.0, NEVER)
    assert guide is not None
    prices = prices_of(guide, WEIGHTS * factors)
    for assignment in random.Random(seed).sample(everywhere, min(len(everywhere), 30)):
        reached = period(problem, evaluate(problem, assignment))
        total = loads_of(problem, assignment)
        states, row = guide.start, first_row(3)
        for i, device in enumerate(assignment):
            states, added, _ = guide.counted_step(i, states, ALL.index(device))
            assert (states >= 0).all()
            row = row._replace(loads=row.loads + added, pool=row.pool + added[:, 1:].sum(axis=1))
            assert guide.bounds(i + 1, states, row)[0] <= reached + 1e-6
            rest = prices.weights @ (total - row.loads[0])
            assert (guide.rest(i + 1, states, prices)[0] <= rest + 1e-6).all()
        assert guide.bounds(len(assignment), states, row)[0] >= (row.loads[0, 0] * factors[0]) - 1e-6


@CHECKED
@given(st.lists(st.tuples(st.integers(0, 1), *[st.integers(0, 40)] * 3), min_size=5, max_size=200), st.integers(2, 60))
def test_a_merged_row_is_a_lower_bound_of_its_rows(given_rows: list, width: int) -> None:
    table = np.array(given_rows, dtype=float)
    count, loads = len(table), table[:, 1:]
    nothing = np.zeros(count, int)
    rows = first_row(3)._replace(
        loads=loads,
        traced=loads,
        pool=loads[:, 1:].sum(axis=1),
        state=table[:, 0].astype(int),
        bound=loads.sum(axis=1),
        parent=np.arange(count),
        device=nothing,
        swapped=nothing > 0,
    )
    merged = merged_rows(rows, min(width, count - 1), 100.0)
    for k in range(count):
        below = (merged.state == rows.state[k]) & (merged.loads <= loads[k]).all(axis=1) & (merged.pool <= rows.pool[k])
        # A core without work is merged with none that has some: its first loadable is still to come.
        assert (below & ((merged.loads[:, 1:] > 0) == (loads[k, 1:] > 0)).all(axis=1)).any()
    assert (merged.pool >= merged.loads[:, 1:].sum(axis=1)).all()


def search_on_all(of: Problem, deadline: Deadline = NEVER) -> EngineSearch:
    search = EngineSearch(of, STREAM, ALL, *floor_on(of, STREAM, ALL), deadline)
    search.prepare()
    return search


def test_a_set_of_engines_with_too_high_a_bound_is_not_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: List[Tuple[str, ...]] = []
    prepare = EngineSearch.prepare
    monkeypatch.setattr(EngineSearch, "prepare", lambda search: (prepared.append(search.engines), prepare(search)))
    problem = ladder(2)
    floors = [e for e in engine_sets(problem, STREAM) if floor_on(problem, STREAM, e)[0] < solve_stream(problem, STREAM).value]
    assert 0 < len(set(prepared)) < len(engine_sets(problem, STREAM))
    assert set(prepared) <= set(floors)


def test_the_pool_guides_models_of_one_rate() -> None:
    def guided(of: Problem) -> bool:
        return search_on_all(of).guided

    problem = ladder(2)
    assert guided(problem)
    two = replace(problem, models=("a", "b"), rates=(1.0, 1.0))
    assert guided(two)
    assert not guided(replace(two, rates=(1.0, 2.0)))


@pytest.mark.parametrize("seed", range(4))
def test_narrow_beams_end_near_the_bound_before_any_wide_look(seed: int) -> None:
    """A chain of 40 items, every fourth of which may not run on a core."""
    rng = random.Random(seed)
    times = [(rng.uniform(20, 60), rng.uniform(40, 90)) for _ in range(40)]
    items = tuple(
        Item(f"i{i}", 0, (i,), ALL[:1] if i % 4 == 3 else ALL, {"GPU": cost(gpu), "DLA": cost(dla)})
        for i, (gpu, dla) in enumerate(times)
    )
    between = {("GPU", "DLA"): cost(2), ("DLA", "GPU"): cost(2), ("DLA", "DLA"): Cost()}
    flows = tuple(Flow(f"t{i}", 0, i, (i + 1,), False, between) for i in range(39))
    bare = Problem(items, flows, (), lambda p, c, m: (m,), ("net",), cost(4))
    problem = replace(bare, grouping=regroup(bare, "int8"))
    search = search_on_all(problem)
    narrow = min(period(problem, evaluate(problem, a)) for found in search.first_looks(INFINITY) for a in found)
    best = solve_stream(problem, STREAM).value
    assert search.bound <= best * (1 + 1e-9)
    assert narrow <= best * 1.03
    late = search_on_all(problem, Deadline.after(0.0))
    assert min(period(problem, evaluate(problem, a)) for a in late.begun()) <= best * 1.1
