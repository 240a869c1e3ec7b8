"""Lower bounds of three and more models: weights of loads and times, some of the models alone, equalised cores."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Callable, Dict, Mapping, Sequence

import numpy as np

from edgedla.costs.cost import Cost
from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.fractional import engine_sets, floor_on
from edgedla.placement.solvers.bounds.weights import bounds_of, climbed_weights, coarse_weights
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import narrow_order, problem_of_model, reordered

#: Most models for which a grid of weights is evaluated: each model triples the effort.
MOST_MODELS = 4


def weighed_bound(problem: Problem, goal: Goal, known: float, deadline: Deadline) -> float:
    """The minimum over the sets of engines; a set that cannot beat `known` keeps its floor.

    Args:
        deadline: sets not reached by then keep their floors.
    """
    count = len(problem.models)
    alone = [problem_of_model(problem, m) for m in range(count)]
    ordered = [reordered(p, narrow_order(p, deadline)) for p in alone]
    least = INFINITY
    for engines in engine_sets(problem, goal):
        bound, _ = floor_on(problem, goal, engines)
        if bound < known and count <= MOST_MODELS and not deadline.passed:
            frontiers = [Frontier(p, engines) for p in ordered]
            factors = np.array([problem.factor(frozenset(engines), d) for d in frontiers[0].devices])
            weighed = np.ones(len(factors) + count, bool)
            grid = coarse_weights(weighed)
            by_row = bounds_of(frontiers, factors, grid)
            best = int(by_row.argmax())
            climbed, _ = climbed_weights(frontiers, factors, weighed, grid[best], float(by_row[best]))
            bound = max(bound, climbed)
        least = min(least, bound)
    return least


def with_equal_cores(problem: Problem) -> Problem:
    """The problem with each item on the faster of both cores: each core gets the lower cost and the allowed items of both."""
    first, second = problem.cores
    swap = {first: second, second: first}

    def equal(costs: Mapping[str, Cost], of: Callable[[str], Cost], cores: Sequence[str]) -> Dict[str, Cost]:
        least = min((of(core) for core in cores), key=lambda cost: cost.latency_us)
        return {**costs, first: least, second: least}

    items = tuple(
        replace(
            item,
            allowed=tuple(d for d in problem.devices if d in item.allowed or swap.get(d) in item.allowed),
            costs=equal(item.costs, item.cost, [c for c in swap if c in item.allowed]),
        )
        if set(swap) & set(item.allowed)
        else item
        for item in problem.items
    )
    links = tuple(replace(k, costs=equal(k.costs, k.cost, (first, second))) for k in problem.links)
    slowdown = {
        engines: {
            d: min(problem.factor(engines, d), problem.factor(frozenset(swap.get(e, e) for e in engines), swap.get(d, d)))
            for d in problem.devices
        }
        for n in range(2, len(problem.devices) + 1)
        for engines in map(frozenset, itertools.combinations(problem.devices, n))
    }
    return replace(problem, items=items, links=links, slowdown=slowdown)
