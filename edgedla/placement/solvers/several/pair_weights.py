"""Weights of the engines' loads and of the models' own times that give the highest bound of a makespan."""

from __future__ import annotations

import itertools
from typing import List, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.prices.load_weights import Prices

#: Steps of the climb, and how often each is taken.
STEPS: Tuple[float, ...] = (0.3, 0.15, 0.07, 0.03, 0.01, 0.004)
TIMES = 4

#: Rows of weights around the best.
AROUND = 48

#: Rows of weights in a ring around the best, and how far the rings are from it.
IN_RING, RINGS = 12, (0.03, 0.08, 0.16, 0.3)

#: Shares of one model's own time beside the GPU's load, without the other model's own time.
OF_ONE: Tuple[float, ...] = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)


def of_model(weights: np.ndarray, model: int, factors: np.ndarray) -> np.ndarray:
    """What a microsecond of a model counts on each device: makespan >= sum of weight * load + own weight * own time."""
    size = len(factors)
    rows: np.ndarray = (weights[:, :size] + weights[:, size + model : size + model + 1]) * factors
    return rows


def bounds_of(frontiers: Sequence[Frontier], factors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """By row of weights, the bound by prices."""
    total = np.zeros(len(rows))
    for m, f in enumerate(frontiers):
        total += Prices(f, of_model(rows, m, factors), np.ones(len(rows), bool)).root
    return total


def coarse_weights(weighed: np.ndarray) -> np.ndarray:
    """A coarse grid; only the weights in `weighed` differ from 0."""
    grid = np.array([r for r in itertools.product((0.0, 1.0, 3.0), repeat=len(weighed)) if sum(r)])
    grid = grid[(grid[:, ~weighed] == 0).all(axis=1)]
    return np.unique(np.round(grid / grid.sum(axis=1, keepdims=True), 7), axis=0)


def climbed_weights(
    frontiers: Sequence[Frontier], factors: np.ndarray, weighed: np.ndarray, best: np.ndarray, reached: float
) -> Tuple[float, np.ndarray]:
    """(the best bound by prices that a climb meets, the weights that give it), from weights and what they reached."""
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
    rows = np.zeros((len(RINGS) * IN_RING, len(best)))
    rows[:, weighed] = np.maximum(best[weighed] + (np.array(RINGS)[:, None, None] * steps).reshape(-1, 3), 0.0)
    rows /= rows.sum(axis=1, keepdims=True)
    return np.unique(np.round(np.concatenate([best[None], rows, np.eye(len(best))[weighed]]), 7), axis=0)


def weights_around(best: np.ndarray, weighed: np.ndarray) -> np.ndarray:
    """Rows for a search: the best, shifted by several steps, each alone, the GPU and one model, and some at random, the
    same each time."""
    size = len(best)
    base = np.where(weighed, np.maximum(best, 0.02), 0.0)
    random = np.random.default_rng(0)
    scattered = base * np.exp(random.normal(0.0, 0.8, (AROUND, size)))
    scattered[np.arange(0, AROUND, 3), random.integers(size, size=len(range(0, AROUND, 3)))] = 0.0
    scattered = scattered[scattered.sum(axis=1) > 0]
    scattered /= scattered.sum(axis=1, keepdims=True)
    alone = np.eye(size)[weighed]
    of_one = [(1 - share) * alone[0] + share * own for share in OF_ONE for own in alone[-2:]]
    rows = np.concatenate([moved(best, 0.02, weighed), moved(best, 0.15, weighed), alone, of_one, scattered])
    return np.unique(np.round(rows, 7), axis=0)
