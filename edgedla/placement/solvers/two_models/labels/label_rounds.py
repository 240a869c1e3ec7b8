"""Repeated looks of the search over labels, below rising limits, while that improves the result."""

from __future__ import annotations

from typing import List

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import TELLING, of_model, weights_in_rings
from edgedla.placement.solvers.two_models.labels.execution import Execution
from edgedla.placement.solvers.two_models.labels.label_search import LabelSearch, Room
from edgedla.placement.solvers.two_models.labels.timelines import TimeAhead, Timelines
from edgedla.placement.solvers.two_models.pair import Pair

#: Most items of both models: beyond, sets of items take too much memory.
MOST_ITEMS = 3_000

#: A narrow look for short schedules alone, below the best known.
DIVE = Room(labels=400, evenly=0.5, dearer=0.1)


class LabelRounds:
    """The search over labels for two models on the GPU and one core each; improvements are offered to the best.

    Args:
        weights: weights of the loads of the GPU and a core and of both models' own times that give the best bound.
        weighed: which of them may differ from 0; not the core's.

    Attributes:
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
        self.room = Room()
        self.weights, self._used = of_time, np.zeros(len(of_time))

    @staticmethod
    def can_run(pair: Pair) -> bool:
        """True if each model has a core of its own and their items are not too many."""
        return len(pair.cores) == 2 and sum(pair.items) <= MOST_ITEMS

    def run(self, bound: float, until: Deadline) -> float:
        """Searches until then: halfway to the limit first, which shows the weights that tell. Returns the bound, `bound` or higher."""
        pair, search = self._pair, self.search(until, self.room)
        asked = (bound + pair.limit) / 2
        while bound < pair.limit and not until.passed:
            value, reached = pair.best.value, self._look(search, asked)
            bound = max(bound, reached)
            if reached < asked and (search.crowded or pair.best.value == value):
                break
            asked = pair.limit
        return min(bound, pair.best.value)

    def dive(self, bound: float, until: Deadline) -> float:
        """A narrow look, which offers what it finds, until then. Returns the bound, as `run` does."""
        reached = self._look(self.search(until, DIVE), self._pair.limit, learns=False)
        return min(max(bound, reached), self._pair.best.value)

    def search(self, until: Deadline, room: Room) -> LabelSearch:
        """A search that ends then."""
        return LabelSearch(self.timelines, self.weights, sum(self._pair.items), room, until)

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
