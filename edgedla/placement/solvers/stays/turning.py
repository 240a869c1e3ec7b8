"""Rows of segments with the loadables that TensorRT forms: as many as lie along one path, each item as late as may be."""

from __future__ import annotations

from typing import Iterator, Tuple

import numpy as np

from edgedla.placement.solvers.several.segment_arrays import ROW, Rest, SegmentArrays
from edgedla.placement.solvers.streams.frontier import Frontier

#: Live items up to which each has a bit.
MOST_LIVE = 30


class TurningSegments(SegmentArrays):
    """`SegmentArrays` with more numbers before the last two of each state.

    By live item, the number of loadables along the longest path to it; the number along any path so far, which is that of all
    loadables in the end; and, as bits by live item, what is owed. TensorRT walks back from the ends and puts each item in
    the last loadable that it may be in. So an item in another loadable is read by an item in the same loadable, or by one of
    the next GPU segment that leads on, within it, to the next loadable. Until such a reader is met, the item owes it.
    """

    def __init__(self, frontier: Frontier, loadables: int, flat: Rest) -> None:
        super().__init__(frontier, loadables, flat)
        self._loadables = loadables
        self.start = np.zeros((1, 4), ROW)
        # The parts of an item that are read one by one may be in several loadables.
        self._owes = max(len(live) for live in frontier.live_items) <= MOST_LIVE and not any(
            1 in allowed and item.units > 1 and len(tensors) > 1
            for allowed, item, tensors in zip(frontier.allowed, frontier.problem.items, frontier.out_of)
        )

    def is_whole(self, states: np.ndarray) -> np.ndarray:
        whole: np.ndarray = super().is_whole(states) & (states[:, -4] == self._loadables)
        return whole

    def _rows(self, i: int, states: np.ndarray) -> np.ndarray:
        columns, rows = self._columns[i], super()._rows(i, states)
        for a in range(columns.items):
            rows[:, columns.slack(a, 0)] = states[:, -4] - states[:, self._longest_at(i) + a]
        rows[:, columns.counts_at] = self._loadables - states[:, -4]
        return rows

    def _longest_at(self, i: int) -> int:
        return len(self.frontier.live_items[i]) + 2 * len(self.frontier.live_flows[i])

    def _stepped(self, i: int, states: np.ndarray, k: int) -> Iterator[Tuple[np.ndarray, np.ndarray, np.ndarray]]:
        behind, load = self._step(i, states, k)
        longest = self._longest(i, states, k)
        for promises in (False, True)[: 1 + (self._owes and k % 2 == 0 and k < self.last)]:
            which, owing = np.flatnonzero(longest[:, -1] <= self._loadables), np.zeros(len(states), ROW)
            if self._owes:
                may, owing = self._owing(i, states, k, promises)
                which = which[may[which]]
            if len(which):
                parts = [behind[:, :-2], longest, owing[:, None], behind[:, -2:]]
                yield which, np.concatenate([part[which] for part in parts], axis=1).astype(ROW), load[which]

    def _longest(self, i: int, states: np.ndarray, k: int) -> np.ndarray:
        """By state and by live item behind item i, the loadables along the longest path to it; last, those of all."""
        s, at = self.frontier.steps[i], self._longest_at(i)
        of_item = np.full(len(states), k % 2, ROW)
        for a in s.predecessors:
            of_item = np.maximum(of_item, states[:, at + a] + (k % 2 > states[:, a] % 2))
        columns = [states[:, at + a] for a in s.items_at] + ([of_item] if s.is_kept else [])
        return np.stack([*columns, np.maximum(states[:, -4], of_item)], axis=1)

    def _owing(self, i: int, states: np.ndarray, k: int, promises: bool) -> Tuple[np.ndarray, np.ndarray]:
        """(whether each state may go on, what is owed behind item i)."""
        s, bits = self.frontier.steps[i], states[:, -3].copy()
        owes = k < self.last - 1 if k % 2 else promises
        if k % 2 or promises:
            for a in s.predecessors:
                met = (states[:, a] == k) | (states[:, a] == k - 1)
                bits &= ~(met.astype(ROW) << a)
        gone = sum(1 << a for a in range(len(self.frontier.live_items[i])) if a not in s.items_at)
        may = (bits & ROW(gone) == 0) & (s.is_kept or not owes)
        if promises:
            may &= bits != states[:, -3]
        now = np.zeros(len(states), ROW)
        for new, a in enumerate(s.items_at):
            now |= (bits >> a & 1) << new
        if s.is_kept and owes:
            now |= ROW(1 << len(s.items_at))
        return may, now
