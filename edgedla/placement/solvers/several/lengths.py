"""The shortest schedules of two models, for many pairs of placements with the same rows of segments at once."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np


def simple_bounds(devices: Tuple[Sequence[str], Sequence[str]], times: Tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """By pair the largest of both models' own times and the loads of the devices; `times` are (pairs, segments)."""
    first, second = times
    bound = np.maximum(first.sum(axis=1), second.sum(axis=1))
    for d in set(devices[0]) | set(devices[1]):
        a = first[:, [k for k, x in enumerate(devices[0]) if x == d]].sum(axis=1)
        b = second[:, [k for k, x in enumerate(devices[1]) if x == d]].sum(axis=1)
        bound = np.maximum(bound, a + b)
    return bound


def shortest(
    devices: Tuple[Sequence[str], Sequence[str]], times: Tuple[np.ndarray, np.ndarray], limit: float
) -> np.ndarray:
    """By pair the length of its shortest schedule, or `limit` where that is no longer.

    All orders in which the segments of one may run before those of the other on their device, one after the other. Of two
    steps that commute, those of the first model come first.
    """
    count = len(times[0])
    best = np.full(count, limit)
    left = [np.cumsum(t[:, ::-1], axis=1)[:, ::-1] for t in times]
    left = [np.concatenate([x, np.zeros((count, 1))], axis=1) for x in left]
    #: (segments done, ends of both, last end by (model, device), last placed, rows that may still be shorter)
    stack: List[
        Tuple[int, int, np.ndarray, np.ndarray, Dict[Tuple[int, str], np.ndarray], Optional[str], np.ndarray]
    ] = [(0, 0, np.zeros(count), np.zeros(count), {}, None, np.arange(count))]
    while stack:
        i, j, end_a, end_b, last, before, rows = stack.pop()
        reached = np.maximum(end_a + left[0][rows, i], end_b + left[1][rows, j])
        alive = reached < best[rows] * (1 - 1e-12)
        if not alive.any():
            continue
        if not alive.all():
            rows, end_a, end_b, reached = rows[alive], end_a[alive], end_b[alive], reached[alive]
            last = {key: x[alive] for key, x in last.items()}
        more_a, more_b = i < len(devices[0]), j < len(devices[1])
        if not (more_a and any(d in devices[1][j:] for d in devices[0][i:])):
            # Nothing that is left meets.
            tail_a, tail_b = end_a, end_b
            for k in range(i, len(devices[0])):
                tail_a = _after(tail_a, last.get((1, devices[0][k])), times[0][rows, k])
            for k in range(j, len(devices[1])):
                tail_b = _after(tail_b, last.get((0, devices[1][k])), times[1][rows, k])
            best[rows] = np.minimum(best[rows], np.maximum(tail_a, tail_b))
            continue
        if more_b:
            d = devices[1][j]
            ended = _after(end_b, last.get((0, d)), times[1][rows, j])
            stack.append((i, j + 1, end_a, ended, {**last, (1, d): ended}, d, rows))
        if more_a and (before is None or before == devices[0][i]):
            d = devices[0][i]
            ended = _after(end_a, last.get((1, d)), times[0][rows, i])
            stack.append((i + 1, j, ended, end_b, {**last, (0, d): ended}, None, rows))
    return best


def _after(end: np.ndarray, free: Optional[np.ndarray], time_us: np.ndarray) -> np.ndarray:
    """When a segment ends that follows its model's last one and waits for its device; an empty one waits for nothing."""
    if free is None:
        return end + time_us
    waits: np.ndarray = np.where(time_us > 1e-9, np.maximum(end, free), end) + time_us
    return waits
