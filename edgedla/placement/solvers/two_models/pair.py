"""Two models on one set of engines: what every part of the search for their makespan goes by, and sums that bound a pair of placements."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import narrow_order, problem_of_model, reordered
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.vocabulary import GPU


class Pair:
    """With two cores each model has one of its own.

    The cores are alike, and a model that uses both is no slower with all its loadables on one, where no other model's are;
    but for one case, which is left out: a loadable in two parts, one on each core, lets the GPU run something between them.

    Attributes:
        cores: of the engines.
        names: by model, its devices, the GPU first.
        frontiers, states: by model.
        order: by model, its items as the searches take them: in an order with few open tensors.
        items: by model, how many.
        factors: slowdown by device.
    """

    def __init__(self, problem: Problem, engines: Tuple[str, ...], best: Best, gap: float, deadline: Deadline) -> None:
        self.problem, self.engines, self.best, self.gap, self.deadline = problem, engines, best, gap, deadline
        self.cores = cores = [d for d in engines if d != GPU]
        self.names = [(GPU, *cores[:1]), (GPU, *cores[-1:])]
        reach = tuple(d for d in engines if d in (GPU, *cores[:1]))
        alone = [problem_of_model(problem, m) for m in (0, 1)]
        ordering = deadline.to_prepare
        orders = [narrow_order(p, ordering) for p in alone]
        self.order = [[problem.items_of(m)[i] for i in order] for m, order in enumerate(orders)]
        self.frontiers = [Frontier(reordered(p, order), reach) for p, order in zip(alone, orders)]
        self.states = [StateArrays(f, alike=False, merged=True) for f in self.frontiers]
        self.items = [len(order) for order in self.order]
        self.factors = np.array([problem.factor(frozenset(engines), d) for d in self.frontiers[0].devices])

    @property
    def limit(self) -> float:
        """What a pair has to be below to matter."""
        return self.best.value * (1 - self.gap)

    def placed(self, first: Sequence[str], second: Sequence[str]) -> Evaluation:
        """Both models with these devices by item, in the searches' order."""
        devices = dict(zip((*self.order[0], *self.order[1]), (*first, *second)))
        return evaluate(self.problem, [devices[i] for i in range(len(devices))])

    def named(self, m: int, choices: np.ndarray) -> Sequence[str]:
        """The devices of model m from their positions."""
        return [self.names[m][k] for k in choices]


def best_pairs(loads: Sequence[np.ndarray], factors: np.ndarray, names: Sequence[Sequence[str]]) -> List[Tuple[float, int, int]]:
    """(a lower bound of the makespan, placement of each model) of all pairs, lowest first; `loads`: (placements, devices) per model."""
    times = loads[0][:, None] * factors, loads[1] * factors
    bounds = simple_bounds((names[0], names[1]), times)
    order = np.argsort(bounds, axis=None, kind="stable")
    return [(float(bounds[a, b]), int(a), int(b)) for a, b in zip(*np.unravel_index(order, bounds.shape))]


def simple_bounds(devices: Tuple[Sequence[str], Sequence[str]], times: Tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """By pair the largest of both models' own times and the loads of the devices; `times`: the last axis is of segments."""
    first, second = times
    bound = np.maximum(first.sum(axis=-1), second.sum(axis=-1))
    for d in set(devices[0]) | set(devices[1]):
        a = first[..., [k for k, x in enumerate(devices[0]) if x == d]].sum(axis=-1)
        b = second[..., [k for k, x in enumerate(devices[1]) if x == d]].sum(axis=-1)
        bound = np.maximum(bound, a + b)
    return bound
