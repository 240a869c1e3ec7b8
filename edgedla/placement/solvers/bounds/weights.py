"""Weights of the engines, and of both models' own times, that give high bounds: climbs, grids and rings around the best."""

from __future__ import annotations

import itertools
from typing import List, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.states.frontier import Frontier

#: Factors on the weight of one engine, relative to the best so far, for the sweeps' weights.
WIDE: Tuple[float, ...] = (0.5, 0.75, 1.0, 1.33, 2.0)

#: Steps of a climb, as shares of a weight or of all, and how often each is taken at most.
STEPS: Tuple[float, ...] = (0.3, 0.15, 0.07, 0.03, 0.01, 0.004)
TIMES = 4

#: Rows of weights that a wide search goes by: those that gave most bounds in the narrower ones before.
TELLING = 16


def best_prices(frontier: Frontier, factors: np.ndarray, weights: np.ndarray, deadline: Deadline = NEVER) -> Tuple[float, Prices]:
    """(the best bound of the whole problem, prices around the weights that give it); the climb starts at `weights`.

    Args:
        deadline: the climb stops there.
    """
    around = weights_around(weights)
    prices = Prices.both_ways(frontier, around * factors)
    bound, best = _highest(prices, around)
    if (best > 0).all():
        for step in STEPS:
            if deadline.passed:
                return bound, prices
            rows = stretched(best, (1 / (1 + step), 1.0, 1 + step))
            reached, row = _highest(Prices.both_ways(frontier, rows * factors), rows)
            if reached > bound:
                bound, best = reached, row
    if (best > 0).all() and not np.allclose(best, weights, atol=1e-5):
        around = weights_around(best)
        prices = Prices.both_ways(frontier, around * factors)
        bound = max(bound, _highest(prices, around)[0])
    return bound, prices


def _highest(prices: Prices, rows: np.ndarray) -> Tuple[float, np.ndarray]:
    """(the highest bound of these prices, its row of weights)."""
    root = prices.root
    at = int(root.argmax())
    return float(root[at]), rows[at % len(rows)]


def stretched(best: np.ndarray, stretch: Sequence[float]) -> np.ndarray:
    """Weights with every engine but the first scaled by each combination of these factors; each row sums to 1."""
    rows = [best]
    for factors in itertools.product(stretch, repeat=len(best) - 1):
        row = best * np.array((1.0, *factors))
        if row.sum() > 0:
            rows.append(row / row.sum())
    return np.unique(np.round(np.array(rows), 7), axis=0)


def weights_around(best: np.ndarray) -> np.ndarray:
    """Weights for the search: the best ones and their stretched variants, each single device, and pairs of devices."""
    size = len(best)
    rows = [*stretched(best, WIDE), *np.eye(size)]
    if size > 2:
        for left_out in range(size):
            for share in (0.2, 0.35, 0.5, 0.65, 0.8):
                row = np.zeros(size)
                first, second = (k for k in range(size) if k != left_out)
                row[first], row[second] = share, 1 - share
                rows.append(row)
    return np.unique(np.round(np.array(rows), 7), axis=0)


#: Rows of weights in a ring around the best; the rings are as far from it as the first four steps of a climb.
IN_RING = 12


def of_model(weights: np.ndarray, model: int, factors: np.ndarray) -> np.ndarray:
    """What a microsecond of a model counts on each device: makespan >= sum of weight * load + own weight * own time."""
    size = len(factors)
    rows: np.ndarray = (weights[:, :size] + weights[:, size + model : size + model + 1]) * factors
    return rows


def bounds_of(frontiers: Sequence[Frontier], factors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """By row of weights, the bound by prices."""
    total = np.zeros(len(rows))
    for m, f in enumerate(frontiers):
        total += Prices(f, of_model(rows, m, factors)).root
    return total


def coarse_weights(weighed: np.ndarray) -> np.ndarray:
    """A coarse grid; only the weights in `weighed` differ from 0."""
    grid = np.array([r for r in itertools.product((0.0, 1.0, 3.0), repeat=len(weighed)) if sum(r)])
    grid = grid[(grid[:, ~weighed] == 0).all(axis=1)]
    return np.unique(np.round(grid / grid.sum(axis=1, keepdims=True), 7), axis=0)


def climbed_weights(
    frontiers: Sequence[Frontier], factors: np.ndarray, weighed: np.ndarray, best: np.ndarray, reached: float
) -> Tuple[float, np.ndarray]:
    """(the best bound by prices that a climb meets, the weights that give it), by ever smaller steps from weights and what they reached."""
    for step in STEPS:
        for _ in range(TIMES):
            rows = moved(best, step, weighed)
            value = bounds_of(frontiers, factors, rows)
            if value.max() <= reached * (1 + 1e-6):
                break
            best, reached = rows[int(value.argmax())], float(value.max())
    return reached, best


def moved(best: np.ndarray, step: float, weighed: np.ndarray) -> np.ndarray:
    """The weights with a share of each given to each other."""
    rows: List[np.ndarray] = [best]
    for a, b in itertools.permutations(np.flatnonzero(weighed), 2):
        if best[a] > 0:
            row = best.copy()
            given = min(row[a], step)
            row[a] -= given
            row[b] += given
            rows.append(row)
    return np.unique(np.round(np.array(rows), 7), axis=0)


def weights_in_rings(best: np.ndarray, weighed: np.ndarray) -> np.ndarray:
    """The best, rings of rows around it, and each weight alone; three of the weights differ from 0."""
    turn = np.linspace(0.0, 2 * np.pi, IN_RING, endpoint=False)
    # Steps that leave the sum of the three as it is.
    steps = np.cos(turn[:, None] + 2 * np.pi / 3 * np.arange(3))
    rows = np.zeros((4 * IN_RING, len(best)))
    rows[:, weighed] = np.maximum(best[weighed] + (np.array(STEPS[:4])[:, None, None] * steps).reshape(-1, 3), 0.0)
    rows /= rows.sum(axis=1, keepdims=True)
    return np.unique(np.round(np.concatenate([best[None], rows, np.eye(len(best))[weighed]]), 7), axis=0)
