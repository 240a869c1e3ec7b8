"""The guest of two models: in which windows it uses the GPU, and how long it stays there."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.labels.moments import NO_ITEM
from edgedla.placement.solvers.labels.timelines import Known, Timelines
from edgedla.placement.solvers.several.graph import Ways
from edgedla.placement.solvers.streams.rows import ranges

#: New moments of the guest that one graph may need: beyond, it has too many branches that may run in any order.
MOST_NEW = 45_000

#: The column of stays at both edges; those in each gap follow.
EDGES = 0

#: Where a state stands: outside, with no stay in the next window; in a stay; outside, with a stay in the next window, or in
#: the second window while there was none so far.
OUTSIDE, INSIDE, BETWEEN, BEFORE_SECOND = 0, 1, 2, 3


class Stays:
    """All ways through the guest, step by step, as `Steps` of a graph.

    The host's GPU segments cut the time into windows: one before the first, one beside each of its `gaps` loadables, one
    behind the last. In a window the guest has at most one stay: from the beginning of its first GPU segment there to the end of
    its last one, with all loadables in between. All its other time is outside.

    Columns: stays at both edges, with what is outside before the first window's and behind the last one's; the stay in each
    gap; what is outside beside each GPU segment of the host alone; and what is outside beside several.
    A state is a moment of the guest, the window of its last stay, counted from 1 (0 before the first stay), and where it stands.

    Attributes:
        stopped: moments were too many, or the deadline came first; then what was met says nothing.
    """

    def __init__(
        self, timelines: Timelines, guest: int, gaps: int, rows: np.ndarray, most_moments: int, deadline: Deadline
    ) -> None:
        """
        Args:
            rows: which weights of the timelines bounds go by.
        """
        self._timelines, self._guest, self._rows, self._deadline = timelines, guest, rows, deadline
        self._most = most_moments
        self._last = gaps + 2
        self._gaps, self.columns = gaps, 2 * gaps + 3
        self.start = np.array([[timelines.starts[guest], 0, OUTSIDE]])
        self.stopped = False

    def ways(self, i: int, states: np.ndarray) -> Tuple[np.ndarray, Ways]:
        """(the states behind the step, the ways there from these states before it)."""
        known = None if self.stopped else self._timelines.look(states[:, 0], self._most, self._deadline)
        if known is None:
            self.stopped = True
            none = np.zeros(0, int)
            return states[:0], Ways(np.zeros(len(states) + 1, int), none, none, np.zeros((0, self.columns)))
        counts = known.ways[states[:, 0]]
        of = np.repeat(np.arange(len(states)), counts)
        way = ranges(known.first[states[:, 0]], counts)
        window, stands = states[of, 1], states[of, 2]
        if i == 0:
            # Where the first stay will be.
            of, way, window = (np.tile(x, 3) for x in (of, way, window))
            stands = np.repeat([OUTSIDE, BETWEEN, BEFORE_SECOND], len(of) // 3)
        at, window, stands, column = self._entered(known, way, window, stands)
        of, way = of[at], way[at]
        load: np.ndarray = np.zeros((len(of), self.columns))
        load[np.arange(len(of)), column] = known.gpu_us[way]
        load[np.arange(len(of)), self._core_column(window, stands)] += known.core_us[way]
        order = np.argsort(of, kind="stable")
        of, way, load, window, stands = of[order], way[order], load[order], window[order], stands[order]
        behind = np.stack([known.target[way], window, stands], axis=1)
        key = (behind[:, 0] * (self._last + 1) + behind[:, 1]) * 4 + behind[:, 2]
        _, first, target = np.unique(key, return_index=True, return_inverse=True)
        choice = (way - known.first[states[of, 0]]).astype(np.int16)
        return behind[first], Ways(np.searchsorted(of, np.arange(len(states) + 1)), target, choice, load)

    def taken(self, states: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Some of the states."""
        return states[which]

    def is_whole(self, states: np.ndarray) -> np.ndarray:
        """By state, at the end: no stay is still to come, but for the last window, which may be empty."""
        window, stands = states[:, 1], states[:, 2]
        last = (window >= self._last - 1) & (stands == BETWEEN) & (window > 0)
        whole: np.ndarray = (stands <= INSIDE) | last | ((stands == BEFORE_SECOND) & (self._last == 2))
        return whole

    def rest(self, i: int, states: np.ndarray) -> np.ndarray:
        """By state and by weight, the least that is still to come, as if all of it lay where it counts least."""
        rest: np.ndarray = self._timelines.known.rest[states[:, :1], self._rows]
        return rest

    def devices(self, choices: Sequence[int]) -> List[int]:
        """The position of the device of each item, of one way through."""
        known, moment = self._timelines.known, self._timelines.starts[self._guest]
        devices: Dict[int, int] = {}
        for choice in choices:
            way = known.first[moment] + choice
            _, item, device = self._timelines.choices[way].tolist()
            moment = known.target[way]
            devices[item] = device
        return [devices[item] for item in sorted(devices) if item != NO_ITEM]

    def _gpu_column(self, window: np.ndarray) -> np.ndarray:
        """The column of the stay in a window, counted from 1."""
        column: np.ndarray = np.where((window <= 1) | (window == self._last), EDGES, window - 1)
        return column

    def _core_column(self, window: np.ndarray, stands: np.ndarray) -> np.ndarray:
        """The column of a loadable."""
        at_edge = (window == 0) | (window == self._last)
        between = np.where(at_edge, EDGES, self._gaps + window)
        column: np.ndarray = np.full(len(window), self.columns - 1)
        column[stands == BEFORE_SECOND] = self._gaps + 1
        column = np.where(stands == INSIDE, self._gpu_column(window), column)
        return np.where(stands == BETWEEN, between, column)

    def _entered(
        self, known: Known, way: np.ndarray, window: np.ndarray, stands: np.ndarray
    ) -> Tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(index of the way, window and where it stands behind it, column of its GPU time), for all places it may lead to."""
        inside, on_core = stands == INSIDE, self._timelines.choices[way, 2] == 1
        # Reformats of a loadable that has begun lie in the stay before it.
        begins = ~inside & (known.acquires[way] | ((known.gpu_us[way] > 0) & (window == 0)))
        parts = [(np.flatnonzero(~begins), window[~begins])]
        for new in range(1, self._last + 1):
            next_one = np.where(stands == BETWEEN, window + 1 == new, (stands == BEFORE_SECOND) & (new == 2))
            later = (stands == OUTSIDE) & (new >= np.maximum(window + 2, 3 * (window == 0)))
            which = np.flatnonzero(begins & (next_one | later))
            parts.append((which, np.full(len(which), new)))
        at, behind = (np.concatenate(x) for x in zip(*parts))
        goes_on = np.where(begins[at], INSIDE, stands[at])
        column = self._gpu_column(behind)
        # A loadable lies in a stay that goes on, or ends it.
        ends = np.flatnonzero((goes_on == INSIDE) & on_core[at])
        again = ends[behind[ends] < self._last - 1]
        parts_of = [
            (np.arange(len(at)), goes_on),
            (ends, np.full(len(ends), BETWEEN)),
            (again, np.full(len(again), OUTSIDE)),
        ]
        which, stands = (np.concatenate(x) for x in zip(*parts_of))
        return at[which], behind[which], stands, column[which]
