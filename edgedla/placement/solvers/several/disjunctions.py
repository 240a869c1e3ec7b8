"""Of two segments on the GPU one runs first: which placements of one model leave those of the other room below a limit."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.several.graph import Graph

#: Rows of the other model with one number of segments; of more, those that are near each other are merged.
MOST_ROWS = 96

#: Into how many parts the limit is cut to tell near rows from others, at first; halved until they are few enough.
PARTS = 1 << 14

#: A segment that takes no longer is empty: it waits for nothing.
EMPTY_US = 1e-9


class Disjunctions:
    """What the placements of one model leave to those of another.

    For a GPU segment k of one model and a GPU segment l of the other, no schedule is shorter than the lower one of these: the
    first model up to the end of k and then the other from l on; the other up to the end of l and then the first from k on.

    Args:
        fronts: of the other model, by how many segments it has: (rows, segments) of times, slowdown counted, the GPU's and a
            loadable's in turn; no placement of that model that matters is below all rows.
    """

    def __init__(self, fronts: Sequence[np.ndarray], limit: float) -> None:
        self._limit = limit
        #: By row: what it has on the GPU, the ends of its GPU segments, and what is left from the begin of each.
        self._rows: List[Tuple[float, np.ndarray, np.ndarray]] = []
        for times in fronts:
            times = _merged(times, limit)
            ends, tails = np.cumsum(times, axis=1), np.cumsum(times[:, ::-1], axis=1)[:, ::-1]
            for row, at_end, tail in zip(times, ends, tails):
                used = np.flatnonzero(row[::2] > EMPTY_US)
                self._rows.append((float(row[::2].sum()), at_end[::2][used], tail[::2][used]))
        self._rows.sort(key=lambda row: row[0])

    def leave_room(self, gpu_us: np.ndarray, ends: np.ndarray, tails: np.ndarray) -> np.ndarray:
        """Which rows can be part of a schedule below the limit.

        Args:
            gpu_us: by row, the least on the GPU.
            ends, tails: (rows, GPU segments), the least up to the end of a segment and from its begin on; -inf for one that
                may be empty.
        """
        room = np.zeros(len(gpu_us), bool)
        left = np.arange(len(gpu_us))
        for other_us, other_ends, other_tails in self._rows:
            if not len(left):
                break
            fits = left[gpu_us[left] + other_us < self._limit]
            for end_us, tail_us in zip(other_ends, other_tails):
                first = ends[fits] + tail_us < self._limit
                fits = fits[(first | (tails[fits] + end_us < self._limit)).all(axis=1)]
            room[fits] = True
            left = left[~room[left]]
        return room


class Room:
    """Which rows of a model's front, up to an item, leave the other model room.

    Args:
        fixed, factors: by segment of the graph, what it takes besides, and its slowdown.
    """

    def __init__(self, graph: Graph, fixed: np.ndarray, factors: np.ndarray, others: Disjunctions) -> None:
        size = graph.weights.shape[1]
        each, on_gpu = np.eye(size)[::2], np.arange(size) % 2 == 0
        up_to, from_it = np.tril(np.ones((size, size)))[::2], np.triu(np.ones((size, size)))[::2]
        self._weights = np.concatenate([on_gpu[None], each, up_to, from_it]) * factors
        self._ahead = [ahead + self._weights @ fixed for ahead in graph.ahead_of(self._weights)]
        self._others = others

    def of(self, position: int, state: np.ndarray, loads: np.ndarray) -> np.ndarray:
        """Which rows before an item leave room."""
        least = loads @ self._weights.T + self._ahead[position][state]
        # What a segment has so far may still move to one before.
        each, ends, tails = np.split(least[:, 1:], 3, axis=1)
        may_be_empty = each <= EMPTY_US
        ends, tails = (np.where(may_be_empty, -np.inf, us) for us in (ends, tails))
        return self._others.leave_room(least[:, 0], ends, tails)


def _merged(times: np.ndarray, limit: float) -> np.ndarray:
    """Few rows: one, no longer than any of them, for those that are near each other."""
    parts = PARTS
    while len(times) > MOST_ROWS:
        # What is empty stays apart.
        boxes = np.ceil(times * (parts / limit)).astype(np.int64)
        _, of_row = np.unique(boxes, axis=0, return_inverse=True)
        order = np.argsort(of_row.ravel(), kind="stable")
        starts = np.flatnonzero(np.diff(of_row.ravel()[order], prepend=-1))
        times, parts = np.minimum.reduceat(times[order], starts, axis=0), parts // 2
    return times
