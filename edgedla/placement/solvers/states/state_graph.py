"""Every state on a placement below a given period, with the exact minimum of the weighted load from each to the end."""

from __future__ import annotations

from typing import Callable, List, Optional

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.bounds.latency_limit import LatencyLimit
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.busiest.rows import LONG_ROW, Edges, ranges, row_maxima
from edgedla.placement.solvers.states.state_arrays import StateArrays

#: States of all positions together, and the most before one item from then on: each takes about half a kilobyte.
ALL_STATES, BEYOND = 500_000, 500


def prices_of(arrays: StateArrays, weights: np.ndarray) -> Prices:
    """Prices of these weights of the engines; if the cores are alike, also of the weights with the cores swapped."""
    if arrays.alike:
        weights = np.unique(np.concatenate([weights, weights[:, (0, 2, 1)]]), axis=0)
    return Prices(arrays.frontier, weights)


class StateGraph:
    """The states of a frontier, layer by layer, without those on no placement below `limit`.

    For weights w of the engines, ahead[s] is the minimum of w . load over all paths from state s to the end that may be part
    of a placement below the limit. So for a partial placement in s with loads l, max over w of (w . l + ahead[s]) is a lower
    bound of all its completions below the limit.

    Attributes:
        weights: (weights, devices); closed under swapping the cores if these are alike.
        edges: by item.
        ahead: by position before an item, and after the last: (states, weights); infinite if no path leads to the end.
        states, behind: by position, the states, and per weight the minimum load up to each.
        symmetric: by position, whether each state is its own mirror image.
        dropped: a lower bound of all placements through states dropped for lack of room; infinite if none was.
        empty: no path leads to the end: no placement is shorter than the limit, or than `dropped` if that is lower.
        stopped: the deadline came first; then `edges` and `ahead` are incomplete.
    """

    def __init__(
        self,
        arrays: StateArrays,
        prices: Prices,
        limit: float,
        most_states: int,
        deadline: Deadline,
        all_loads: Optional[LatencyLimit] = None,
        whole: bool = False,
        bound_of: Callable[[np.ndarray], np.ndarray] = row_maxima,
    ) -> None:
        """Finds the states; if more than `most_states` precede one item, keeps those with the lowest bounds.

        Args:
            prices: come from `prices_of`.
            all_loads: the limit of the sum of loads, if there are latency bounds.
            whole: a part of the states is of no use: stops where there are too many, and is then `empty`.
            bound_of: bounds of placements from what each takes at least, per row by weight.
        """
        self.frontier, self._arrays, self._prices, self.bound_of = arrays.frontier, arrays, prices, bound_of
        self.weights = weights = prices.weights
        self._turned = _swapped_rows(weights) if arrays.alike else np.arange(len(weights))
        self.edges: List[Edges] = []
        self.ahead: List[np.ndarray] = []
        self.symmetric: List[np.ndarray] = [np.zeros(1, bool)]
        self.states: List[np.ndarray] = [arrays.start]
        self.behind: List[np.ndarray] = [np.zeros((1, len(weights)))]
        self.dropped = np.inf
        self.empty = self.stopped = False
        self._build(limit, most_states, deadline, all_loads, whole)
        if not self.stopped and not self.empty:
            self._look_back(limit)

    @property
    def root(self) -> np.ndarray:
        """Per weight, the bound of the whole problem; valid up to the limit and `dropped`."""
        return np.full(len(self.weights), np.inf) if self.empty else self.ahead[0][0]

    def kinds(self, i: int) -> np.ndarray:
        """A number per state before item i, as for `StateArrays.kinds`."""
        return self._arrays.kinds(self.states[i])

    def _build(self, limit: float, most_states: int, deadline: Deadline, all_loads: Optional[LatencyLimit], whole: bool) -> None:
        behind_us: np.ndarray = np.zeros((1, 1))
        frontier, weights = self.frontier, self.weights
        states = self._arrays.start
        behind: np.ndarray = np.zeros((1, len(weights)))
        count = 1
        for i in range(len(frontier.allowed)):
            if deadline.passed:
                self.stopped = True
                return
            targets, edges, symmetric = self._arrays.edges(i, states)
            of = np.repeat(np.arange(len(states)), np.diff(edges.first))
            value = behind[of] + edges.load @ weights.T
            value[edges.swapped] = value[edges.swapped][:, self._turned]
            behind = least_by(edges.target, value, len(targets))
            behind[symmetric] = np.minimum(behind[symmetric], behind[symmetric][:, self._turned])
            bound = self.bound_of(behind + self._arrays.rest(i + 1, targets, self._prices))
            keep = bound < limit
            if all_loads is not None:
                behind_us = least_by(edges.target, behind_us[of] + edges.load.sum(axis=1)[:, None], len(targets))
                keep &= all_loads.keeps(i + 1, targets, behind_us[:, 0])
            most = most_states if count < ALL_STATES else min(most_states, BEYOND)
            if keep.sum() > most:
                last = np.sort(bound[keep])[most]
                self.dropped = min(self.dropped, float(last))
                if whole:
                    self.empty = True
                    return
                keep &= bound < last
            onto = np.where(keep, np.cumsum(keep) - 1, -1)
            states, behind = targets[keep], behind[keep]
            count += len(states)
            behind_us = behind_us[keep] if all_loads is not None else behind_us
            self.edges.append(_onto(edges, onto))
            self.symmetric.append(symmetric[keep])
            self.states.append(states)
            self.behind.append(behind)
            if not len(states):
                self.empty = True
                return

    def _look_back(self, limit: float) -> None:
        """Fills `ahead` from the last item to the first, over the edges on placements below the limit; drops all others."""
        ahead = np.zeros((len(self.symmetric[-1]), len(self.weights)))
        self.ahead = [ahead]
        for i in range(len(self.edges) - 1, -1, -1):
            edges = self.edges[i]
            value = ahead[edges.target]
            value[edges.swapped] = value[edges.swapped][:, self._turned]
            value += edges.load @ self.weights.T
            of = np.repeat(np.arange(len(self.states[i])), np.diff(edges.first))
            stays = self.bound_of(value + self.behind[i][of]) < limit
            self.edges[i] = edges.only(stays)
            ahead = least_in_order(self.edges[i].first, value[stays])
            self.ahead.append(ahead)
        self.ahead.reverse()
        self._drop_unreached()

    def _drop_unreached(self) -> None:
        """Drops the states to which no edge leads any more, and their edges."""
        kept = np.ones(1, bool)
        for i, edges in enumerate(self.edges):
            edges = edges.of_states(kept)
            reached = np.zeros(len(self.states[i + 1]), bool)
            reached[edges.target] = True
            kept = reached
            self.edges[i] = edges._replace(target=(np.cumsum(kept) - 1)[edges.target])
            for columns in (self.states, self.behind, self.ahead, self.symmetric):
                columns[i + 1] = columns[i + 1][kept]
        self.empty = not kept.any()


def least_by(group: np.ndarray, value: np.ndarray, count: int) -> np.ndarray:
    """Per group, the minimum of its rows in each column; infinite for a group without rows."""
    counts = np.bincount(group, minlength=count)
    return least_in_order(np.r_[0, np.cumsum(counts)], value[np.argsort(group, kind="stable")])


def least_in_order(first: np.ndarray, value: np.ndarray) -> np.ndarray:
    """`least_by` for rows that are ordered by group: those of group g are `first[g]` to `first[g + 1]`."""
    counts, k = first[1:] - first[:-1], 1
    least = np.full((len(first) - 1, value.shape[1]), np.inf)
    of = np.flatnonzero(counts)
    least[of] = value[first[of]]
    of = of[counts[of] > k]
    # For small groups, one pass per place is several times faster than `reduceat`.
    while len(of) and k < LONG_ROW:
        least[of] = np.minimum(least[of], value[first[of] + k])
        k += 1
        of = of[counts[of] > k]
    if len(of):
        left = counts[of] - k
        rows = value[ranges(first[of] + k, left)]
        least[of] = np.minimum(least[of], np.minimum.reduceat(rows, np.cumsum(left) - left, axis=0))
    return least


def _onto(edges: Edges, onto: np.ndarray) -> Edges:
    """The edges to the kept states, with targets renumbered."""
    kept = edges.only(onto[edges.target] >= 0)
    return kept._replace(target=onto[kept.target])


def _swapped_rows(weights: np.ndarray) -> np.ndarray:
    """Per row, the index of the row with the last two columns swapped. Rows are sorted and closed under the swap."""
    order = np.lexsort(weights[:, (0, 2, 1)].T[::-1])
    turned = np.empty(len(weights), int)
    turned[order] = np.arange(len(weights))
    return turned
