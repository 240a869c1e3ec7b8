"""States as rows of integers: which column holds what."""

from __future__ import annotations

from typing import Sequence, Union

import numpy as np

from edgedla.placement.solvers.streams.frontier import Frontier, State

#: Devices, and sets of devices as bits, after the two cores change places.
SWAPPED_DEVICES, SWAPPED_SETS = np.array((0, 2, 1), np.int16), np.array((0, 1, 4, 5, 2, 3, 6, 7), np.int16)


class Columns:
    """The columns of `State`'s fields in a row, before one item or after the last.

    Per live item its device, then its slack per core; then `paid` per live flow, `counts`, `ends` and `engine`.
    """

    def __init__(self, frontier: Frontier, i: int) -> None:
        self.cores = len(frontier.cores)
        self.items, self.flows = len(frontier.live_items[i]), len(frontier.live_flows[i])
        self.paid_at = self.items * (1 + self.cores)
        self.counts_at = self.paid_at + self.flows
        self.ends_at = self.counts_at + self.cores
        self.engine_at = self.ends_at + self.cores
        self.size = self.engine_at + 1

    def device(self, item: int) -> int:
        return item * (1 + self.cores)

    def slack(self, item: int, core: int) -> int:
        """The column of an item's slack; `core` is a position among the cores."""
        return item * (1 + self.cores) + 1 + core

    def rows(self, states: Union[Sequence[State], np.ndarray]) -> np.ndarray:
        """States as rows of numbers; what is rows already stays as it is."""
        if isinstance(states, np.ndarray):
            return states
        return np.array(
            [[*(v for x in s.items for v in x), *s.paid, *s.counts, *s.ends, s.engine] for s in states], np.int16
        ).reshape(len(states), self.size)

    def mirrored(self, rows: np.ndarray) -> np.ndarray:
        """The rows with the two cores swapped."""
        image = rows.copy()
        for k in range(self.items):
            at = self.device(k)
            image[:, at] = SWAPPED_DEVICES[rows[:, at]]
            image[:, at + 1], image[:, at + 2] = rows[:, at + 2], rows[:, at + 1]
        image[:, self.paid_at : self.counts_at] = SWAPPED_SETS[rows[:, self.paid_at : self.counts_at]]
        for at in (self.counts_at, self.ends_at):
            image[:, at], image[:, at + 1] = rows[:, at + 1], rows[:, at]
        return image
