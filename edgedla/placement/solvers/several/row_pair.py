"""Pairs of placements with so many loadables each: a bound of their schedules, order by order, and the shortest ones."""

from __future__ import annotations

import itertools
from typing import Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.several.front import front
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.orders import Node, orders, paths
from edgedla.placement.solvers.several.pair import Pair, blocks
from edgedla.placement.solvers.several.segment_arrays import EMPTY_US
from edgedla.placement.solvers.several.segment_rows import Row

#: Orders beyond which what the weights say of all of them stands.
MOST_ORDERS = 4_000

#: How often weights of the paths are sought and graphs are narrowed by them, and how much smaller a graph has to get.
ROUNDS, SMALLER = 6, 0.8

#: Steps of the climb to the weights, how far it goes at once, and how often it may find nothing higher.
CLIMB, STRIDES, MISSES = 18, (4.0, 15.0, 60.0), 4

#: From so many steps on each has to close so much of the gap.
SURE, WORTH = 4, 0.01

#: Ways of both graphs up to which pairs of placements are looked at one by one.
MOST_LEFT = 6_000

#: Weights that a graph is narrowed by.
TELLING = 16

#: Rows of a front, and pairs of two fronts whose schedules are searched for.
WIDTH, HANDED_OUT = 3_000, 12


class _InOrder(NamedTuple):
    """What both models may do in one order.

    Attributes:
        paths: by model, (paths, segments) that a path counts, slowdown counted.
        constant: by path, what loadables add by being there.
    """

    graphs: Tuple[Graph, Graph]
    paths: Tuple[np.ndarray, np.ndarray]
    constant: np.ndarray

    @property
    def size(self) -> int:
        return sum(len(ways.target) for graph in self.graphs for ways in graph.ways)


class RowPair:
    """The placements of both models with so many loadables each.

    A schedule is as long as the longest path through it, so no shorter than any mixture of paths; and a mixture falls apart
    into a sum over the segments of each model, whose least each model's graph gives. The best mixture of one order says far
    more than weights that hold in any: hardly ever is there a pair of placements left to look at.

    Args:
        rows: by model.
        limit: what is looked below.
    """

    def __init__(self, pair: Pair, rows: Tuple[Row, Row], limit: float) -> None:
        self._pair, self._rows, self._asked = pair, rows, limit
        self._fixed = [np.array(r.segments.fixed) for r in rows]
        self._factors = [pair.factors[list(r.segments.devices)] for r in rows]

    @property
    def limit(self) -> float:
        return min(self._asked, self._pair.limit)

    def bound(self, least: float) -> float:
        """A bound of all these pairs, `limit` at most; the shortest ones are offered.

        Args:
            least: what is known of them.
        """
        devices = self._devices()
        both = [paths(devices, order) for order in itertools.islice(self._orders(devices), MOST_ORDERS + 1)]
        if not both:
            return self._asked
        if len(both) > MOST_ORDERS or self._pair.is_late:
            return least
        known = self._by_one_path(both)
        low = self._asked
        for k in np.argsort(known, kind="stable"):
            if known[k] >= min(low, self.limit):
                break
            if self._pair.is_late:
                return min(low, max(least, float(known[k])))
            low = min(low, self._bound_in(both[k], max(least, float(known[k]))))
        return low

    def _devices(self) -> Tuple[List[str], List[str]]:
        """By model and segment. One between others that may be empty is by itself: it waits for nothing."""
        first, second = (
            [
                f"{m}.{k}" if empty else self._pair.names[m][d]
                for k, (d, empty) in enumerate(zip(s.devices, s.may_be_empty))
            ]
            for m, s in enumerate(row.segments for row in self._rows)
        )
        return first, second

    def _orders(self, devices: Tuple[List[str], List[str]]) -> Iterator[List[Node]]:
        up_to, from_it = [], []
        for m, row in enumerate(self._rows):
            size = row.segments.columns
            weights = np.concatenate([np.tril(np.ones((size, size))), np.triu(np.ones((size, size)))])
            each = self._least(m, weights * self._factors[m])
            up_to.append(each[:size])
            from_it.append(each[size:])
        may = [up_to[m][:, None] + from_it[1 - m] < self.limit for m in (0, 1)]
        return orders(devices, (may[0], may[1]))

    def _least(self, m: int, weights: np.ndarray) -> np.ndarray:
        """By weight of the segments, the least of model m."""
        least: np.ndarray = self._rows[m].graph.ahead_of(weights)[0][0] + weights @ self._fixed[m]
        return least

    def _by_one_path(self, both: Sequence[Tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """By order, the bound of its longest path."""
        of_path: np.ndarray = np.zeros(sum(len(of[0]) for of in both))
        for m in (0, 1):
            distinct, which = np.unique(np.concatenate([of[m] for of in both]), axis=0, return_inverse=True)
            of_path = of_path + self._least(m, distinct * self._factors[m])[which.ravel()]
        first = np.cumsum([0, *(len(of[0]) for of in both[:-1])])
        longest: np.ndarray = np.maximum.reduceat(of_path, first)
        return longest

    def _bound_in(self, both: Tuple[np.ndarray, np.ndarray], best: float) -> float:
        """A bound of the pairs in one order; `best` is known of them."""
        weighted = both[0] * self._factors[0], both[1] * self._factors[1]
        constant = weighted[0] @ self._fixed[0] + weighted[1] @ self._fixed[1]
        now = _InOrder((self._rows[0].graph, self._rows[1].graph), weighted, constant)
        for _ in range(ROUNDS):
            reached, weights = self._climbed(now)
            best = max(best, reached)
            if best >= self.limit:
                return self._asked
            if self._pair.is_late:
                return best
            size, now = now.size, self._narrowed(now, weights)
            if any(graph.stopped for graph in now.graphs):
                return best
            if any(graph.empty for graph in now.graphs):
                return self._asked
            if now.size > SMALLER * size:
                break
        return max(best, self._shortest(now)) if now.size <= MOST_LEFT else best

    def _climbed(self, now: _InOrder) -> Tuple[float, np.ndarray]:
        """(the highest bound that weights of the paths give, those that say most and each path alone).

        Weights rise on the paths that are long for the placements that these weights lead to.
        """
        count = len(now.constant)
        best, reach, misses = -np.inf, 1.0, 0
        lengths = mean = at = np.zeros(count)
        tried: List[Tuple[np.ndarray, np.ndarray]] = []
        rows: np.ndarray = np.full((1, count), 1.0 / count)
        for step in range(CLIMB):
            ahead = [graph.ahead_of(rows @ p) for graph, p in zip(now.graphs, now.paths)]
            values = ahead[0][0][0] + ahead[1][0][0] + rows @ now.constant
            tried.append((values, rows))
            k = int(values.argmax())
            gained = float(values[k]) - best
            if gained > 0:
                best, at = float(values[k]), rows[k]
            if best >= self.limit or self._pair.is_late:
                break
            if step >= SURE and 0 < gained < WORTH * (self.limit - best):
                break
            met = self._met(now, rows[k], [[a[:, k] for a in of_model] for of_model in ahead])
            mean = met if not mean.any() else (mean + met) / 2
            if gained > 0:
                lengths = met
            else:
                reach, misses = reach / 2, misses + 1
                if misses == MISSES:
                    break
            longest = max(float(lengths.max()), EMPTY_US)
            rows = np.array([
                at * np.exp(np.clip(reach * stride / longest * (way - at @ way), -30, 30))
                for way in (lengths, mean) for stride in STRIDES
            ])  # fmt: skip
            rows /= rows.sum(axis=1, keepdims=True)
        values, rows = (np.concatenate(x) for x in zip(*tried))
        return best, np.concatenate([rows[np.argsort(-values, kind="stable")[:TELLING]], np.eye(count)])

    def _met(self, now: _InOrder, weights: np.ndarray, ahead: Sequence[List[np.ndarray]]) -> np.ndarray:
        """By path, how long it is for the placements that these weights lead to; they are offered where that is short."""
        ways = [g.way_through(weights @ p, a) for g, p, a in zip(now.graphs, now.paths, ahead)]
        lengths: np.ndarray = now.paths[0] @ ways[0][0] + now.paths[1] @ ways[1][0] + now.constant
        if lengths.max() < self._pair.limit:
            self._offer(ways[0][1], ways[1][1])
        return lengths

    def _offer(self, first: np.ndarray, second: np.ndarray) -> None:
        devices = [
            [self._pair.names[m][row.segments.devices[k]] for k in choices]
            for m, (row, choices) in enumerate(zip(self._rows, (first, second)))
        ]
        self._pair.best.offer(self._pair.placed(devices[0], devices[1]))

    def _narrowed(self, now: _InOrder, weights: np.ndarray) -> _InOrder:
        """What is left of both graphs by these weights of the paths."""
        by_segment, constant = [weights @ p for p in now.paths], weights @ now.constant
        first, second = now.graphs
        beside = second.ahead_of(by_segment[1])[0][0]
        for _ in range(2):
            first = first.narrowed(by_segment[0], beside + constant, self.limit)
            if first.empty or first.stopped:
                break
            second = second.narrowed(by_segment[1], first.least + constant, self.limit)
            if second.empty or second.stopped:
                break
            beside = second.least
            first.beside = beside + constant
        return now._replace(graphs=(first, second))

    def _shortest(self, now: _InOrder) -> float:
        """A bound of the pairs that are left, `limit` at most; the shortest ones are offered."""
        limit = self.limit
        both = [front(graph, limit, WIDTH, self._pair.deadline) for graph in now.graphs]
        if any(of_model.stopped for of_model in both):
            return -np.inf
        low = min(limit, both[0].lost, both[1].lost)
        ways = [of_model.loads @ p.T for of_model, p in zip(both, now.paths)]
        met: List[Tuple[float, int, int]] = []
        for first, second in blocks((both[0], both[1])):
            length = np.maximum(both[0].bound[first], both[1].bound[second])
            for a, b, us in zip(ways[0].T, ways[1].T, now.constant):
                length = np.maximum(length, a[first] + b[second] + us)
            low = min(low, float(length.min()))
            for k in np.argsort(length, kind="stable")[:HANDED_OUT]:
                met.append((float(length[k]), int(first[k]), int(second[k])))
        for length_us, a, b in sorted(met)[:HANDED_OUT]:
            if length_us >= self._pair.limit:
                break
            self._offer(both[0].choices[a], both[1].choices[b])
        return self._asked if low >= limit else low


def bound_of_pairs(pair: Pair, rows: Sequence[Sequence[Row]], limit: float) -> float:
    """A bound of the pairs of these rows of both models, `limit` at most; the shortest ones are offered."""
    low = limit
    both = sorted(
        (float((a.least + b.least).max()), i, j) for i, a in enumerate(rows[0]) for j, b in enumerate(rows[1])
    )
    for least, i, j in both:
        if least >= min(low, pair.limit):
            break
        low = min(low, RowPair(pair, (rows[0][i], rows[1][j]), limit).bound(least))
    return low
