"""Which pairs of placements of two models promise a short makespan, by sums alone."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np


def best_pairs(
    loads: Sequence[np.ndarray], factors: np.ndarray, names: Sequence[Sequence[str]]
) -> List[Tuple[float, int, int]]:
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
