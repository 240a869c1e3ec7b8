"""The weights of the engines that give the highest bound by prices: a step-wise climb of a concave function."""

from __future__ import annotations

import itertools
from typing import Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.prices.load_weights import Prices

#: Factors on the weight of one engine, relative to the best so far: for the sweeps' weights, and per step of the climb.
WIDE: Tuple[float, ...] = (0.5, 0.75, 1.0, 1.33, 2.0)
STEPS: Tuple[float, ...] = (1.2, 1.08, 1.03, 1.01, 1.004)


def best_prices(
    frontier: Frontier, factors: np.ndarray, weights: np.ndarray, deadline: Deadline = NEVER
) -> Tuple[float, Prices]:
    """(the best bound of the whole problem, prices around the weights that give it); the climb starts at `weights`.

    Args:
        deadline: the climb stops there.
    """
    around = weights_around(weights)
    prices = Prices.both_ways(frontier, around * factors)
    bound, best = _highest(prices, around)
    first = best
    if (best > 0).all():
        for step in STEPS:
            if deadline.passed:
                return bound, prices
            rows = stretched(best, (1 / step, 1.0, step))
            reached, row = _highest(Prices.both_ways(frontier, rows * factors), rows)
            if reached > bound:
                bound, best = reached, row
    if (best > 0).all() and not np.allclose(best, weights, atol=1e-5):
        around = weights_around(best)
        prices = Prices.both_ways(frontier, around * factors)
        bound = max(bound, _highest(prices, around)[0])
    elif first is not best:
        bound = max(bound, float(prices.root.max()))
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
