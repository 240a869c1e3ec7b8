"""Fronts of what is left: their bounds hold at each step of every placement, and on one core they are the shortest period."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.deadline import NEVER
from edgedla.placement.problem.problem import Flow, Item, Problem
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import weights_around
from edgedla.placement.solvers.busiest import loads_ahead as fronts_module
from edgedla.placement.solvers.busiest.loads_ahead import LoadsAhead, in_pairs
from edgedla.placement.solvers.busiest.rows import first_row, row_maxima
from edgedla.placement.solvers.busiest.sweep import sweep
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.states.state_graph import StateGraph, prices_of
from tests.placement.placement_problems import assignments, checked, cost, problems
from tests.placement.test_placement_sweep import ALL, of_one_batch
from tests.placement.tuple_states import start, step

pytestmark = pytest.mark.once

CHECKED = checked(20, 100)


@CHECKED
@given(
    problems(max_items=7, devices=ALL, models=2, limits=False),
    st.sampled_from([ALL, ALL[:2], ALL[:1]]),
    st.booleans(),
    st.sampled_from([1.02, 1.3, 100.0]),
    st.integers(0, 1000),
)
def test_fronts_are_lower_bounds_of_every_placement(drawn: Problem, engines: tuple, few: bool, loose: float, seed: int) -> None:
    problem = of_one_batch(drawn, (1.0, 1.5))
    frontier = Frontier(problem, engines)
    if not all(frontier.allowed):
        return
    factors = np.array([1.0, 1.25, 1.25])[: len(engines)]
    loads, trails = [], []
    for assignment in assignments(problem):
        if set(assignment) <= set(engines):
            state, total, trail = start(frontier), np.zeros(len(engines)), []
            for i, d in enumerate(assignment):
                state, added = step(frontier, i, state, engines.index(d))
                total = total + added
                trail.append(total)
            loads.append(total)
            trails.append((assignment, trail))
    periods = row_maxima(np.array(loads) * factors)
    limit = float(periods.min()) * loose + 1e-3
    arrays = StateArrays(frontier, False, merged=True)
    weights = weights_around(np.full(len(engines), 1 / len(engines))) * factors
    graph = StateGraph(arrays, prices_of(arrays, weights), limit, 10**6, NEVER)
    points = fronts_module.POINTS
    try:
        fronts_module.POINTS = 3 if few else points
        fronts = LoadsAhead(graph, factors, limit)
    finally:
        fronts_module.POINTS = points
    if len(engines) < 3 and not few:
        assert fronts.root == pytest.approx(periods.min())
        traced = tuple(engines[d] for d in fronts.shortest(graph))
        assert periods[[a for a, _ in trails].index(traced)] == pytest.approx(periods.min())
    assert fronts.root <= periods.min() + 1e-6
    found = sweep(graph, factors, limit, 10**6, fronts, NEVER).assignments[0]
    assert periods[[a for a, _ in trails].index(found)] == pytest.approx(periods.min())
    below = [k for k in range(len(periods)) if periods[k] < limit - 1e-6]
    for k in random.Random(seed).sample(below, min(len(below), 20)):
        state, (assignment, trail) = 0, trails[k]
        for i, (d, total) in enumerate(zip(assignment, trail)):
            edges = graph.edges[i]
            (edge,) = (e for e in range(edges.first[state], edges.first[state + 1]) if edges.device[e] == engines.index(d))
            state = int(edges.target[edge])
            row = first_row(len(engines))._replace(loads=total[None], pool=total[None, 1:].sum(axis=1))
            assert fronts.of_rows(i + 1, row._replace(state=np.array([state])))[0] <= periods[k] + 1e-6


def test_weights_in_pairs_bound_the_weighted_loads() -> None:
    weights = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    assert in_pairs(weights).tolist() == [[0.2, 0.3], [1.0, 0.0]]
    assert in_pairs(weights[:, :2]).tolist() == [[0.2, 0.5], [1.0, 0.0]]
    assert in_pairs(weights[:, :1]).tolist() == [[0.2, 0.0], [1.0, 0.0]]


def test_some_prices_equal_those_computed_anew() -> None:
    between = {("GPU", "DLA"): cost(3), ("DLA", "GPU"): cost(2), ("DLA", "DLA"): cost(1)}
    items = tuple(Item(f"l{k}", 0, (k,), ALL, {"GPU": cost(4 + k % 3), "DLA": cost(6)}) for k in range(6))
    flows = [Flow("x", 0, None, (0, 3), False, between)]
    flows += [Flow(f"t{k}", 0, k, (k + 1, 5) if k < 4 else (5,) if k < 5 else (), k == 5, between) for k in range(6)]
    frontier = Frontier(Problem(items, tuple(flows), (), lambda *_: (), ("m",), cost(2), ALL), ALL)
    prices = Prices.both_ways(frontier, weights_around(np.array([0.4, 0.3, 0.3])))
    which = np.array([1, 4, len(prices.weights) - 1])
    some, anew = prices.only(which), Prices(frontier, prices.weights[which], prices.along[which])
    assert some.root == pytest.approx(anew.root)
    rows = StateArrays(frontier, False)
    states = rows.start
    for i in range(6):
        assert some.rest(i, states) == pytest.approx(anew.rest(i, states))
        assert some.own[i] == pytest.approx(anew.own[i])
        states = rows.edges(i, states)[0]
