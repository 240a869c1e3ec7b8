"""Repeated looks of the search over labels: wider, and below higher limits, while that improves the result."""

from __future__ import annotations

import time
from typing import List

import numpy as np

from edgedla.placement.solvers.labels.label_search import LabelSearch
from edgedla.placement.solvers.labels.moments import Moments
from edgedla.placement.solvers.labels.rests import Rests
from edgedla.placement.solvers.labels.timelines import Timelines
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.several.pair_weights import moved, of_model
from edgedla.placement.solvers.streams.load_weights import Prices

#: Labels after a step: at first, at most, and the growth factor when there were too few.
FEWEST, MOST, MORE = 2_000, 64_000, 4

#: Labels after all steps together, limited by memory: each is kept until the look ends.
IN_ALL = 24_000_000

#: Most items of both models: beyond, sets of items take too much memory.
MOST_ITEMS = 3_000

#: Shares of weight moved to make further rows of weights.
MOVED = (0.05, 0.15)

#: Share of the gap between bound and limit that a look aims for: at first, at least.
ASKED, LEAST_ASKED = 0.5, 0.05

#: Most moments: beyond, the models have too many branches that may run in any order.
MOST_MOMENTS = 80_000

#: The last run is one that leaves more than this share of the gap and finds nothing shorter.
WORTH = 0.85

#: A gap below this share of the value is searched in full at once.
CLOSE = 2e-3


class LabelRounds:
    """The search over labels for two models on the GPU and one core each; improvements are offered to the best.

    Args:
        weights: weights of the loads of the GPU and a core and of both models' own times that give the best bound.
        weighed: which of them may differ from 0; not the core's.

    Attributes:
        goes_on: further looks may improve the result.
    """

    def __init__(self, pair: Pair, weights: np.ndarray, weighed: np.ndarray) -> None:
        self._pair = pair
        rows = np.concatenate([*(moved(weights, step, weighed) for step in MOVED), np.eye(len(weights))[weighed]])
        rows = np.unique(np.round(rows, 7), axis=0)
        of_time = rows[:, [0, 2, 3]]
        models, rests = [], []
        for m, frontier in enumerate(pair.frontiers):
            prices = Prices(frontier, of_model(rows, m, pair.factors), np.ones(len(rows), bool))
            own = of_time[:, 1 + m]
            models.append(Moments(frontier, (float(pair.factors[0]), float(pair.factors[1])), pair.order[m]))
            rests.append(Rests(models[m], prices, np.stack([of_time[:, 0] + own, own], axis=1)))
        self._timelines = Timelines(models, rests)
        self._most, self._share, self.goes_on, self._cut_off = FEWEST, ASKED, True, False
        self._weights = of_time
        self._ceiling = min(MOST, IN_ALL // sum(pair.items))

    @staticmethod
    def can_run(pair: Pair) -> bool:
        """True if each model has a core of its own and their items are not too many."""
        return len(pair.cores) == 2 and sum(pair.items) <= MOST_ITEMS

    def run(self, bound: float, until: float) -> float:
        """Searches until then, on time.monotonic's clock. Returns the bound, at least the known `bound`."""
        pair, began, gap_before = self._pair, self._pair.best.value, self._pair.limit - bound
        search = LabelSearch(self._timelines, self._weights, sum(pair.items), MOST_MOMENTS, until)
        while self.goes_on and bound < pair.limit and time.monotonic() < until:
            value = pair.best.value
            gap = pair.limit - bound
            asked = bound + self._share * gap if gap > CLOSE * value else pair.limit
            reached = self._look(search, asked, self._most)
            self.goes_on = self._timelines.size < MOST_MOMENTS
            bound = max(bound, reached)
            if search.crowded:
                # A later run may have a smaller gap to search.
                self._share /= 2
                self.goes_on &= self._share > LEAST_ASKED
                return min(bound, pair.best.value)
            if reached >= asked:
                self._share = min(2 * self._share, 1.0)
            elif pair.best.value == value:
                self.goes_on &= self._most < self._ceiling or self._share > LEAST_ASKED
                self._most, self._share = min(MORE * self._most, self._ceiling), max(self._share / 2, LEAST_ASKED)
        bound = min(bound, pair.best.value)
        gained = pair.best.value < began or pair.limit - bound < WORTH * gap_before
        # The next run reuses the moments of a look that was cut off, so allow one more.
        self._cut_off = time.monotonic() >= until and not self._cut_off
        self.goes_on &= gained or self._cut_off
        return bound

    def _look(self, search: LabelSearch, limit: float, most: int) -> float:
        low, met = search.look(limit, most)
        for choices in met:
            devices: List[List[str]] = [[""] * count for count in self._pair.items]
            for m, item, device in choices:
                if item >= 0:
                    devices[m][item] = self._pair.names[m][device]
            self._pair.best.offer(self._pair.placed(devices[0], devices[1]))
        self._timelines.look_ahead()
        return low
