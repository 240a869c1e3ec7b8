"""Repeated looks of the search over labels, below rising limits, while that improves the result."""

from __future__ import annotations

import math
from typing import List, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import GAP
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import TELLING, of_model, weights_in_rings
from edgedla.placement.solvers.two_models.labels.execution import Execution
from edgedla.placement.solvers.two_models.labels.label_search import LabelSearch, Room
from edgedla.placement.solvers.two_models.labels.timelines import TimeAhead, Timelines
from edgedla.placement.solvers.two_models.pair import Pair

#: Most items of both models: beyond, sets of items take too much memory.
MOST_ITEMS = 3_000

#: Limit of the first look above the bound, as a share of the bound.
FIRST = 0.005

#: Most labels of a look, relative to the last one, if they are not few: a look relies on what the last one found out about the
#: rest of each moment.
GROWTH, FEW = 4.0, 50_000

#: Least expected growth of the number of labels when the limit rises by a share FIRST of the bound.
EXPECTED = 1.5

#: Narrow looks for short schedules alone, below the best known: one soon, and a wider one where no proof is in sight.
DIVES: Tuple[Room, ...] = (
    Room(labels=400, evenly=0.5, dearer=0.1),
    Room(labels=2_500, evenly=0.8, dearer=0.1, new_moments=150_000),
)


class LabelRounds:
    """The search over labels for two models on the GPU and one core each; improvements are offered to the best.

    Args:
        weights: weights of the loads of the GPU and a core and of both models' own times that give the best bound.
        weighed: which of them may differ from 0; not the core's.

    Attributes:
        goes_on: further looks may improve the result.
        room: limits of a look.
        timelines: what is known of both models' moments.
        weights: (weights, 3): of the GPU's load and of both models' own times, those of the timelines.
    """

    def __init__(self, pair: Pair, weights: np.ndarray, weighed: np.ndarray) -> None:
        self._pair = pair
        rows = weights_in_rings(weights, weighed)
        of_time = rows[:, [0, 2, 3]]
        models, rests = [], []
        for m, frontier in enumerate(pair.frontiers):
            prices = Prices(frontier, of_model(rows, m, pair.factors))
            own = of_time[:, 1 + m]
            models.append(Execution(frontier, (float(pair.factors[0]), float(pair.factors[1])), pair.order[m]))
            rests.append(TimeAhead(models[m], prices, np.stack([of_time[:, 0] + own, own], axis=1)))
        self.timelines = Timelines(models, rests)
        self.goes_on, self.room = True, Room()
        self.weights, self._used = of_time, np.zeros(len(of_time))
        self._dives = list(DIVES)
        #: Limit of the last look that the time ended.
        self._stopped_at = 0.0
        #: (limit, labels) of the last two looks that were not cut off.
        self._through: List[Tuple[float, int]] = []

    @staticmethod
    def can_run(pair: Pair) -> bool:
        """True if each model has a core of its own and their items are not too many."""
        return len(pair.cores) == 2 and sum(pair.items) <= MOST_ITEMS

    def run(self, bound: float, until: Deadline) -> float:
        """Searches until then. Returns the bound, at least the known `bound`."""
        pair = self._pair
        search = self.search(until, self.room)
        while self.goes_on and bound < pair.limit and not until.passed:
            asked, value = self._asked(bound), pair.best.value
            reached = self._look(search, asked)
            bound = max(bound, reached)
            if reached >= asked:
                self._through = [*self._through[-1:], (asked, search.labels)]
            elif search.crowded or (not until.passed and pair.best.value == value):
                self.goes_on = False
            else:
                self._stopped_at = asked
        return min(bound, pair.best.value)

    def dive(self, bound: float, until: Deadline) -> float:
        """The next narrow look, which offers what it finds, until then. Returns the bound, as `run` does."""
        if self._dives and bound < self._pair.limit:
            search = self.search(until, self._dives.pop(0))
            bound = max(bound, self._look(search, self._pair.limit, learns=False))
            if search.crowded:
                # A wider one has still more moments.
                self._dives.clear()
        return min(bound, self._pair.best.value)

    def search(self, until: Deadline, room: Room) -> LabelSearch:
        """A search that ends then."""
        return LabelSearch(self.timelines, self.weights, sum(self._pair.items), room, until)

    def _asked(self, bound: float) -> float:
        """The limit of the next look, from the growth of the number of labels."""
        limit = self._pair.limit
        if bound <= 0.0:
            return limit
        if not self._through:
            return min(bound * (1 + FIRST), limit)
        last, labels = self._through[-1]
        # Limits closer than a proof's gap are no steps on the way, and do not show how the number of labels grows.
        begin, step = max(last, bound), math.log(max(GROWTH, FEW / max(labels, 1))) / self._growth(bound)
        if begin * (1 + GAP) < self._stopped_at < limit:
            # The time ended a look up to there: half of the way may be covered.
            step = min(step, (self._stopped_at - begin) / 2)
        # A look that would cover most of the gap covers all of it.
        return limit if step > 0.7 * (limit - begin) else begin + step

    def _growth(self, bound: float) -> float:
        """By how much the logarithm of the number of labels grows per microsecond of the limit."""
        growth = math.log(EXPECTED) / (bound * FIRST)
        if len(self._through) > 1:
            (limit, fewer), (last, labels) = self._through
            growth = max(growth, math.log(max(labels, 1) / max(fewer, 1)) / max(last - limit, bound * GAP))
        return growth

    def _look(self, search: LabelSearch, limit: float, learns: bool = True) -> float:
        """`learns`: which weights give most bounds; a narrow look keeps other labels than those that a proof is about."""
        low, met = search.look(limit)
        for choices in met:
            devices: List[List[str]] = [[""] * count for count in self._pair.items]
            for m, item, device in choices:
                if item >= 0:
                    devices[m][item] = self._pair.names[m][device]
            self._pair.best.offer(self._pair.placed(devices[0], devices[1]))
        self.timelines.look_ahead()
        if learns:
            self._used = self._used + search.used
            self.timelines.go_by(np.sort(np.argsort(-self._used, kind="stable")[:TELLING]))
        return low
