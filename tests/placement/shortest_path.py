"""Latency and energy by another method than HiGHS: the shortest path through the states of the throughput searches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Mapping

import numpy as np

from edgedla.costs.cost import Cost
from edgedla.placement.deadline import NEVER
from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import narrow_order, reordered
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.states.state_graph import StateGraph, prices_of


def shortest_path(problem: Problem, goal: Goal) -> float:
    """The least latency or energy if no cap, size or bound binds. It has no program, no branching and no rounds of cuts."""
    count = len(problem.models)
    summed = _as_times(problem, goal) if goal.objective == "energy" else replace(problem, rates=(1.0,) * count)
    frontier = Frontier(reordered(summed, narrow_order(problem)), problem.devices)
    arrays = StateArrays(frontier, False, merged=True)
    prices = prices_of(arrays, np.ones((1, len(frontier.devices))))
    limit = float(prices.root[0]) * 1.002 + 1e-9
    while True:
        graph = StateGraph(arrays, prices, limit, 20_000, NEVER)
        if not graph.empty and graph.root[0] < min(limit, graph.dropped):
            return float(graph.root[0])
        assert graph.dropped >= limit, "too many states"
        limit *= 1.01


def _as_times(problem: Problem, goal: Goal) -> Problem:
    """The problem with millijoules in place of microseconds, and each model's weight as its rate."""

    def costs(of: Mapping[Any, Cost]) -> Dict[Any, Cost]:
        return {key: Cost(cost.energy_mj) for key, cost in of.items()}

    return replace(
        problem,
        items=tuple(replace(i, costs=costs(i.costs)) for i in problem.items),
        flows=tuple(replace(f, costs=costs(f.costs)) for f in problem.flows),
        links=tuple(replace(k, costs=costs(k.costs)) for k in problem.links),
        loadable=Cost(problem.loadable.energy_mj),
        engine=Cost(problem.engine.energy_mj),
        rates=tuple(goal.weight(m) for m in range(len(problem.models))),
    )
