"""The states of one model that a pair of placements may pass, the ways from one to the next, and what the other model leaves room for."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.busiest.rows import row_maxima
from edgedla.placement.solvers.states.state_graph import least_by, least_in_order


class RoomBeside(NamedTuple):
    """The GPU time and the own time of a model's placements, without dominated ones.

    A bound by weights is that of a mixture of placements, but a model with few placements is never such a mixture.

    Attributes:
        gpu_us: ascending, with slowdown.
        own_us: of a single frame without waits; descending.
    """

    gpu_us: np.ndarray
    own_us: np.ndarray

    @classmethod
    def of(cls, loads: np.ndarray) -> RoomBeside:
        """From rows of loads by device, the GPU first."""
        gpu_us, own_us = loads[:, 0], loads.sum(axis=1)
        order = np.lexsort((own_us, gpu_us))
        gpu_us, own_us = gpu_us[order], own_us[order]
        keep = np.ones(len(order), bool)
        keep[1:] = own_us[1:] < np.minimum.accumulate(own_us)[:-1]
        return cls(gpu_us[keep], own_us[keep])

    def least(self, gpu_us: np.ndarray) -> np.ndarray:
        """The minimum, over this model's placements, of max(GPU time of both models, own time of this model)."""
        count = len(self.gpu_us)
        if not count:
            return np.full(len(gpu_us), np.inf)
        # From here on the GPU time is the longer one.
        at = np.searchsorted(self.gpu_us - self.own_us, -gpu_us)
        on_gpu = np.where(at < count, gpu_us + self.gpu_us[np.minimum(at, count - 1)], np.inf)
        own = np.where(at > 0, self.own_us[np.maximum(at - 1, 0)], np.inf)
        least: np.ndarray = np.minimum(on_gpu, own)
        return least


class Choices(Protocol):
    """Items placed one after the other; what placing one costs goes to one of several columns.

    Attributes:
        columns: how many.
        known: by item, the ways on from each state that was met; filled by who looks.
    """

    start: Any
    columns: int
    known: List[Dict[Any, List[Tuple[Any, List[float], int]]]]

    def choices(self, i: int, state: Any) -> Iterable[int]: ...

    def step(self, i: int, state: Any, choice: int) -> Tuple[Any, List[float]]: ...

    def is_whole(self, state: Any) -> bool: ...


class Ways(NamedTuple):
    """Ways on from the states before an item, ordered by state: `first[s]` to `first[s + 1]`."""

    first: np.ndarray
    target: np.ndarray
    choice: np.ndarray
    load: np.ndarray


class Steps(Protocol):
    """States of one kind or another before each item: from some of them to those behind the item."""

    start: Any
    columns: int

    def ways(self, i: int, states: Any) -> Tuple[Any, Ways]: ...

    def taken(self, states: Any, which: np.ndarray) -> Any: ...

    def is_whole(self, states: Any) -> np.ndarray: ...

    def rest(self, i: int, states: Any) -> np.ndarray: ...


class OneByOne:
    """`Steps` of choices whose states are values: soonest where they are few.

    Args:
        rest: (position, states) -> (states, weights): the least that is still to come, for the way there.
    """

    def __init__(self, model: Choices, rest: Callable[[int, Sequence[Any]], np.ndarray]) -> None:
        self.model, self.rest = model, rest
        self.start, self.columns = [model.start], model.columns

    def ways(self, i: int, states: Sequence[Any]) -> Tuple[List[Any], Ways]:
        return ways_on(self.model, i, states)

    def taken(self, states: Sequence[Any], which: np.ndarray) -> List[Any]:
        return [states[k] for k in np.flatnonzero(which).tolist()]

    def is_whole(self, states: Sequence[Any]) -> np.ndarray:
        return np.array([self.model.is_whole(s) for s in states], bool)


class Graph:
    """The states of one model that a pair of placements below `limit` may pass, and the least that comes behind each.

    Attributes:
        companion: the other model's placements, where all that matter were known.
        ways: by item.
        states: by position before an item and behind the last, as the steps have them.
        ahead: by position before an item and behind the last: (states, weights); infinite where no way leads to the end.
        used: by weight, for how many states it gave the highest bound as they were met.
        dropped: a bound of what passes states that were left out for want of room; infinite where none was.
        empty: no way leads to the end below the limit; below `dropped` where that is lower.
        stopped: the deadline came first.
    """

    def __init__(
        self,
        model: Steps,
        items: int,
        weights: np.ndarray,
        beside: np.ndarray,
        limit: float,
        most_states: int,
        deadline: Deadline,
        companion: Optional[RoomBeside] = None,
        gpu_row: int = 0,
    ) -> None:
        """
        Args:
            weights: (weights, columns).
            beside: by weight, what the other models, and what is fixed, add at least.
            companion: the other model's placements, where all that matter are known.
            gpu_row: the row of weights that counts the GPU's time alone.
        """
        self.weights, self.beside = weights, beside
        self.companion, self._gpu_row, self._deadline = companion, gpu_row, deadline
        self._model = model
        self.ways: List[Ways] = []
        self.states: List[Any] = [model.start]
        self.ahead: List[np.ndarray] = []
        self.dropped = np.inf
        self.empty = self.stopped = False
        self.used = np.zeros(len(weights), int)
        states = model.start
        behind: np.ndarray = np.zeros((1, len(weights)))
        for i in range(items):
            if deadline.passed:
                self.stopped = True
                return
            targets, ways = model.ways(i, states)
            if not len(targets):
                self.empty = True
                return
            of = _sources(ways)
            behind = least_by(ways.target, behind[of] + ways.load @ weights.T, len(targets))
            least = behind + model.rest(i + 1, targets)
            bound = self.bounds(least)
            keep = bound < limit
            self.used += np.bincount((least + beside)[keep].argmax(axis=1), minlength=len(weights))
            if i == items - 1:
                keep &= model.is_whole(targets)
            if keep.sum() > most_states:
                last = float(np.sort(bound[keep])[most_states])
                self.dropped = min(self.dropped, last)
                keep &= bound < last
            self.ways.append(_kept(ways, keep[ways.target], np.ones(len(states), bool), keep))
            states, behind = model.taken(targets, keep), behind[keep]
            self.states.append(states)
            if not len(states):
                self.empty = True
                return
        self.ahead = self.ahead_of(self.weights)
        self.narrow(limit, beside, companion)

    def narrow(self, limit: float, beside: np.ndarray, companion: Optional[RoomBeside]) -> None:
        """Leaves out what no pair below `limit` passes, now that what comes ahead is known."""
        self.beside, self.companion = beside, companion
        # Infinite for states that are left out.
        behind: np.ndarray = np.zeros((1, len(self.weights)))
        for i, ways in enumerate(self.ways):
            if self._deadline.passed:
                self.stopped = True
                return
            ahead = self.ahead[i + 1]
            way_there = behind[_sources(ways)] + ways.load @ self.weights.T
            kept = self.bounds(way_there + ahead[ways.target]) < limit
            before, behind = behind, least_by(ways.target[kept], way_there[kept], len(ahead))
            stay = np.isfinite(behind[:, 0])
            self.ways[i] = _kept(ways, kept, np.isfinite(before[:, 0]), stay)
            if self.states:
                self.states[i + 1] = self._model.taken(self.states[i + 1], stay)
        self.empty = not len(self.ways[-1].target)
        if not self.empty:
            self.ahead = self.ahead_of(self.weights)

    def ahead_of(self, weights: np.ndarray) -> List[np.ndarray]:
        """As `ahead`, by any weights of the columns."""
        ahead = np.zeros((int(self.ways[-1].target.max()) + 1, len(weights)))
        by_position = [ahead]
        for ways in reversed(self.ways):
            ahead = least_in_order(ways.first, ahead.take(ways.target, axis=0) + ways.load @ weights.T)
            by_position.append(ahead)
        return by_position[::-1]

    def told(self, rows: np.ndarray) -> None:
        """Goes by these rows of the weights alone from here on."""
        self.weights, self.beside = self.weights[rows], self.beside[rows]
        self.ahead = [ahead[:, rows] for ahead in self.ahead]
        self._gpu_row = int(np.searchsorted(rows, self._gpu_row))

    def bounds(self, least: np.ndarray) -> np.ndarray:
        """By row a bound of the pairs with it, from the least that it takes by weight."""
        bound: np.ndarray = row_maxima(least + self.beside)
        if self.companion is not None:
            bound = np.maximum(bound, self.companion.least(least[:, self._gpu_row]))
        return bound

    @property
    def least(self) -> np.ndarray:
        """By weight, the least of all placements of the model, without `beside`."""
        least: np.ndarray = self.ahead[0][0]
        return least


def _sources(ways: Ways) -> np.ndarray:
    """By way, the state that it leads on from."""
    return np.repeat(np.arange(len(ways.first) - 1), ways.first[1:] - ways.first[:-1])


def _kept(ways: Ways, kept: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> Ways:
    """Some of the ways; the states between which they lead, those of `sources` and `targets`, are counted anew."""
    counts = np.bincount(_sources(ways)[kept], minlength=len(sources))[sources]
    onto = np.cumsum(targets) - 1
    return Ways(np.r_[0, np.cumsum(counts)], onto[ways.target[kept]], ways.choice[kept], ways.load[kept])


def ways_on(model: Choices, i: int, states: Sequence[Any]) -> Tuple[List[Any], Ways]:
    """(the states behind item i, the ways there from these states before it)."""
    index: Dict[Any, int] = {}
    first, target, choice, load = [0], [], [], []
    known = model.known[i]
    for state in states:
        ways_on = known.get(state)
        if ways_on is None:
            ways_on = known[state] = [(*model.step(i, state, k), k) for k in model.choices(i, state)]
        for behind, added, k in ways_on:
            target.append(index.setdefault(behind, len(index)))
            choice.append(k)
            load.append(added)
        first.append(len(target))
    ways = Ways(
        np.array(first),
        np.array(target, int),
        np.array(choice, np.int8),
        np.array(load).reshape(len(target), model.columns),
    )
    return list(index), ways
