"""Every state that a placement below a given period can pass, and the least weighted load behind each: exact, not relaxed."""

from __future__ import annotations

import time
from typing import Dict, List, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.streams.frontier import Frontier, State, mirrored
from edgedla.placement.solvers.streams.load_weights import Prices
from edgedla.placement.solvers.streams.rows import Edges

#: (state behind an item, stored swapped, its own mirror image, device, load added)
Way = Tuple[State, bool, bool, int, List[float]]
#: By item, the ways on from each state that was met.
Known = List[Dict[State, List[Way]]]


def edges_of(
    frontier: Frontier, known: Known, i: int, states: Sequence[State], alike: bool
) -> Tuple[List[State], Edges, np.ndarray]:
    """(states behind item i, edges to them, which of them are their own mirror images).

    Args:
        known: filled with what is met.
        alike: the two cores are, so that of two mirror images one is enough.
    """
    index: Dict[State, int] = {}
    symmetric: List[bool] = []
    first, target, device, load, swapped = [0], [], [], [], []
    for state in states:
        ways = known[i].get(state)
        if ways is None:
            ways = known[i][state] = [_way(frontier, i, state, d, alike) for d in frontier.allowed[i]]
        for least, is_swapped, is_symmetric, d, added in ways:
            at = index.setdefault(least, len(index))
            if len(symmetric) < len(index):
                symmetric.append(is_symmetric)
            target.append(at)
            device.append(d)
            load.append(added)
            swapped.append(is_swapped)
        first.append(len(target))
    edges = Edges(
        np.array(first),
        np.array(target, int),
        np.array(device, np.int8),
        np.array(load).reshape(len(target), len(frontier.devices)),
        np.array(swapped, bool),
    )
    return list(index), edges, np.array(symmetric, bool)


def _way(frontier: Frontier, i: int, state: State, device: int, alike: bool) -> Way:
    new, added = frontier.step(i, state, device)
    image = mirrored(new) if alike else new
    least = min(new, image)
    return least, least is not new, alike and image == new, device, added


class StateGraph:
    """The states of a frontier, layer by layer, without those that no placement below `limit` passes.

    For weights w of the engines, ahead[s] is the least w . load of all ways from state s to the end. So for a partial
    placement in s with loads l, max over w of (w . l + ahead[s]) is a bound of every placement that it becomes.

    Attributes:
        weights: (weights, devices), closed under swapping the cores where these are alike.
        edges: by item.
        ahead: by position before an item, and behind the last: (states, weights); infinite where no way leads to the end.
        symmetric: by position, which states are their own mirror images.
        dropped: a bound of what passes states that were left out for want of room; infinite where none was.
        empty: no way leads to the end: no placement has a shorter period than the limit, or `dropped` where that is lower.
        stopped: the deadline came first; then `edges` and `ahead` are empty.
    """

    def __init__(
        self,
        frontier: Frontier,
        known: Known,
        weights: np.ndarray,
        limit: float,
        alike: bool,
        most_states: int,
        deadline: float,
    ) -> None:
        """Looks for the states; of more than `most_states` before one item those with the lowest bounds are kept."""
        self.frontier, self._known = frontier, known
        self.alike = alike
        if alike:
            weights = np.unique(np.concatenate([weights, weights[:, (0, 2, 1)]]), axis=0)
        self.weights = weights
        self._turned = _swapped_rows(weights) if alike else np.arange(len(weights))
        self.edges: List[Edges] = []
        self.ahead: List[np.ndarray] = []
        self.symmetric: List[np.ndarray] = [np.zeros(1, bool)]
        self.dropped = np.inf
        self.empty = self.stopped = False
        self._build(limit, most_states, deadline)
        if not self.stopped and not self.empty:
            self._look_back()

    @property
    def root(self) -> np.ndarray:
        """By weight, the bound of the whole problem; the least of it, the limit and `dropped` holds."""
        return np.full(len(self.weights), np.inf) if self.empty else self.ahead[0][0]

    def _build(self, limit: float, most_states: int, deadline: float) -> None:
        frontier, weights = self.frontier, self.weights
        prices = Prices(frontier, weights, np.ones(len(weights), bool))
        states, behind = [frontier.start], np.zeros((1, len(weights)))
        for i in range(len(frontier.allowed)):
            if time.monotonic() > deadline:
                self.stopped = True
                return
            targets, edges, symmetric = edges_of(frontier, self._known, i, states, self.alike)
            value = behind[np.repeat(np.arange(len(states)), np.diff(edges.first))] + edges.load @ weights.T
            value[edges.swapped] = value[edges.swapped][:, self._turned]
            behind = _least_by(edges.target, value, len(targets))
            behind[symmetric] = np.minimum(behind[symmetric], behind[symmetric][:, self._turned])
            bound = (behind + prices.rest(i + 1, targets)).max(axis=1)
            keep = bound < limit
            if keep.sum() > most_states:
                last = np.sort(bound)[most_states]
                self.dropped = min(self.dropped, float(last))
                keep &= bound < last
            onto = np.where(keep, np.cumsum(keep) - 1, -1)
            states, behind = [s for s, kept in zip(targets, keep) if kept], behind[keep]
            self.edges.append(_onto(edges, onto))
            self.symmetric.append(symmetric[keep])
            if not states:
                self.empty = True
                return

    def _look_back(self) -> None:
        """Fills `ahead` from the last item to the first."""
        ahead = np.zeros((len(self.symmetric[-1]), len(self.weights)))
        self.ahead = [ahead]
        for edges in reversed(self.edges):
            value = ahead[edges.target]
            value[edges.swapped] = value[edges.swapped][:, self._turned]
            value += edges.load @ self.weights.T
            of = np.repeat(np.arange(len(edges.first) - 1), np.diff(edges.first))
            ahead = _least_by(of, value, len(edges.first) - 1)
            self.ahead.append(ahead)
        self.ahead.reverse()


def _least_by(group: np.ndarray, value: np.ndarray, count: int) -> np.ndarray:
    """By group, the least of its rows in each column; infinite for a group without rows."""
    least = np.full((count, value.shape[1]), np.inf)
    if len(group):
        order = np.argsort(group, kind="stable")
        ordered = group[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        least[ordered[starts]] = np.minimum.reduceat(value[order], starts, axis=0)
    return least


def _onto(edges: Edges, onto: np.ndarray) -> Edges:
    """The edges to the states that are kept, with the indices of those that stand for them."""
    stays = onto[edges.target] >= 0
    counts = np.r_[0, np.cumsum(stays)][edges.first]
    return Edges(counts, onto[edges.target[stays]], edges.device[stays], edges.load[stays], edges.swapped[stays])


def _swapped_rows(weights: np.ndarray) -> np.ndarray:
    """By row, which row has its last two columns swapped. Rows are sorted and closed under that."""
    order = np.lexsort(weights[:, (0, 2, 1)].T[::-1])
    turned = np.empty(len(weights), int)
    turned[order] = np.arange(len(weights))
    return turned
