"""Lower bounds of any schedule of several models, from weights of the engines' loads and of each model's own time."""

from __future__ import annotations

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.lower_bounds import engine_sets, floor_on
from edgedla.placement.solvers.several.one_model import problem_of_model
from edgedla.placement.solvers.several.pair_weights import bounds_of, climbed_weights, coarse_weights
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.item_order import narrow_order, reordered

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
