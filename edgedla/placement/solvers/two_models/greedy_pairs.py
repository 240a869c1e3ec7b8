"""Good placements of two models early: per row of weights the most promising placement of each model, then the best pairs."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.states.state_arrays import StateArrays


class GreedyPlacements(NamedTuple):
    """Placements of a model: (placements, devices) times of each, and (placements, items) the device of each item."""

    loads: np.ndarray
    choices: np.ndarray


def greedy_placements(model: StateArrays, items: int, prices: Prices) -> GreedyPlacements:
    """One placement per row of weights, without duplicates.

    Before each item one state is kept per row: the best by its cost so far plus the remaining cost by prices.
    """
    weights = prices.weights
    states = model.start
    behind: np.ndarray = np.zeros((1, len(weights)))
    history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for i in range(items):
        targets, ways, _ = model.edges(i, states)
        if not len(targets):
            return GreedyPlacements(np.zeros((0, weights.shape[1])), np.zeros((0, items), np.int8))
        load = ways.load
        of = np.repeat(np.arange(len(states)), np.diff(ways.first))
        reached = behind[of] + load @ weights.T
        ahead = prices.rest(i + 1, targets)
        kept = np.unique(ways.target[(reached + ahead[ways.target]).argmin(axis=0)])
        into = [np.flatnonzero(ways.target == t) for t in kept]
        way = np.array([w[reached[w].argmin(axis=0)] for w in into])
        behind = np.take_along_axis(reached, way, axis=0)
        history.append((of[way], ways.device[way], load[way]))
        states = targets[kept]
    column, row = np.arange(len(weights)), behind.argmin(axis=0)
    loads, choices = np.zeros_like(weights), np.zeros((len(weights), items), np.int8)
    for i in reversed(range(items)):
        parent, choice, load = history[i]
        choices[:, i] = choice[row, column]
        loads += load[row, column]
        row = parent[row, column]
    _, first = np.unique(choices, axis=0, return_index=True)
    return GreedyPlacements(loads[first], choices[first])


def best_pairs(
    both: Sequence[GreedyPlacements], factors: np.ndarray, names: Sequence[Sequence[str]]
) -> List[Tuple[float, int, int]]:
    """(a lower bound of the makespan, placement of each model) of all pairs, lowest first; `names`: devices per model."""
    first, second = (np.arange(len(d.loads)) for d in both)
    pairs = np.repeat(first, len(second)), np.tile(second, len(first))
    times = [d.loads[p] * factors for d, p in zip(both, pairs)]
    bounds = simple_bounds((names[0], names[1]), (times[0], times[1]))
    order = np.argsort(bounds, kind="stable")
    return [(float(bounds[k]), int(pairs[0][k]), int(pairs[1][k])) for k in order]


def simple_bounds(devices: Tuple[Sequence[str], Sequence[str]], times: Tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """By pair the largest of both models' own times and the loads of the devices; `times` are (pairs, segments)."""
    first, second = times
    bound = np.maximum(first.sum(axis=1), second.sum(axis=1))
    for d in set(devices[0]) | set(devices[1]):
        a = first[:, [k for k, x in enumerate(devices[0]) if x == d]].sum(axis=1)
        b = second[:, [k for k, x in enumerate(devices[1]) if x == d]].sum(axis=1)
        bound = np.maximum(bound, a + b)
    return bound
