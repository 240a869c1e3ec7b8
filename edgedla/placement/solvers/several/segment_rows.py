"""The pairs of placements with so many loadables each: a bound of their schedules, and the shortest ones."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.several.any_order import AnyOrder
from edgedla.placement.solvers.several.disjunctions import Disjunctions, Room
from edgedla.placement.solvers.several.front import Front, front
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.lengths import shortest, simple_bounds
from edgedla.placement.solvers.several.pair import Pair, blocks
from edgedla.placement.solvers.several.segment_arrays import SegmentArrays
from edgedla.placement.solvers.streams.load_weights import Prices

#: Rows of a front, as far as fewer leave a bound below what is asked for.
WIDTHS = (500, 3_000, 16_000, 64_000)

#: Pairs of two fronts whose schedules are searched for.
HANDED_OUT = 12

#: A placement shorter by this share is a reason to start anew: much of what is to be looked at then falls away.
SHORTER = 1e-3


class Row(NamedTuple):
    """The placements of a model with so many loadables: the row of its segments, the graph, and by weight their least.

    Attributes:
        beside: by weight, the least of the other model.
    """

    segments: SegmentArrays
    graph: Graph
    least: np.ndarray
    beside: np.ndarray


class SegmentRows:
    """The rows of both models."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        #: By the segments of both models, the width that it took to bound them last time.
        self._widths: Dict[Tuple[int, int], int] = {}

    def rows(
        self, look: AnyOrder, m: int, most: int, states: int, limit: float, enough: float = -INFINITY
    ) -> Tuple[float, List[Row]]:
        """(a bound of what is left out for want of room, the rows of model m with up to `most` loadables).

        Args:
            enough: once that bound is no higher, no further row is looked at.
        """
        frontier, weights, beside = self.pair.frontiers[m], look.weights[m], look.least[1 - m]
        flat = Prices(frontier, weights, np.zeros(len(weights), bool))
        low = limit
        rows: List[Row] = []
        for loadables in range(most + 1):
            segments = SegmentArrays(frontier, loadables, flat)
            by_segment = weights[:, list(segments.devices)]
            fixed = by_segment @ np.array(segments.fixed)
            graph = Graph(
                segments, self.pair.items[m], by_segment, beside + fixed, limit, states,
                self.pair.deadline, look.companions[m], look.gpu_row,
            )  # fmt: skip
            if graph.stopped:
                return -INFINITY, rows
            low = min(low, graph.dropped)
            if not graph.empty:
                rows.append(Row(segments, graph, graph.least + fixed, beside))
            if low <= enough:
                break
        return low, rows

    def bound(self, rows: Sequence[Sequence[Row]], limit: float, widths: Sequence[int]) -> float:
        """A bound of these pairs, `limit` at most; the shortest ones are offered.

        Nothing is bounded where something much shorter is met, or the time is over.
        """
        if not rows[0] or not rows[1]:
            return limit
        beside = [np.maximum(rows[m][0].beside, np.min([r.least for r in rows[1 - m]], axis=0)) for m in (0, 1)]
        fronts: List[Dict[int, Tuple[int, Front]]] = [{}, {}]
        order = sorted(
            (float((a.least + b.least).max()), i, j) for i, a in enumerate(rows[0]) for j, b in enumerate(rows[1])
        )
        before = self.pair.best.value
        left = near = [(i, j) for bound, i, j in order if bound < limit]
        reached: Dict[Tuple[int, int], float] = {}
        for width in widths:
            for i, j in left:
                segments = rows[0][i].segments.columns, rows[1][j].segments.columns
                if width < min(self._widths.get(segments, 0), widths[-1]):
                    continue
                self._widths[segments] = width
                for m, k in sorted(((0, i), (1, j)), key=lambda of: self.pair.items[of[0]]):
                    had = fronts[m].get(k)
                    if had is None or (had[0] < width and had[1].merged):
                        others = _others(fronts[1 - m], {pair[1 - m] for pair in near if pair[m] == k}, limit)
                        alone = self._front(rows[m][k], beside[m], limit, width, others)
                        if alone.stopped:
                            return -INFINITY
                        fronts[m][k] = width, alone
                both = fronts[0][i][1], fronts[1][j][1]
                of_both = self._bound_of((rows[0][i], rows[1][j]), both, limit)
                reached[i, j] = min(of_both, both[0].lost, both[1].lost)
                if self.pair.best.value < before * (1 - SHORTER) or self.pair.is_late:
                    return -INFINITY
            # Rows that stand for one placement each say no more when there are more of them.
            left = [
                (i, j) for i, j in left
                if (i, j) not in reached or reached[i, j] < limit and (fronts[0][i][1].merged or fronts[1][j][1].merged)
            ]  # fmt: skip
        return min([limit, *reached.values()])

    def _front(self, row: Row, beside: np.ndarray, limit: float, width: int, others: Optional[Disjunctions]) -> Front:
        """The placements of a row, slowdown and what loadables cost counted; those that leave the other model no room are out."""
        fixed, factors = np.array(row.segments.fixed), self.pair.factors[list(row.segments.devices)]
        row.graph.beside = beside + row.graph.weights @ fixed
        room = None if others is None else Room(row.graph, fixed, factors, others)
        alone = front(row.graph, limit, width, self.pair.deadline, room=room)
        return alone._replace(loads=(alone.loads + fixed) * factors)

    def _bound_of(self, rows: Tuple[Row, Row], fronts: Tuple[Front, Front], limit: float) -> float:
        """A bound of all pairs of two fronts; the shortest ones are offered."""
        names = [[self.pair.names[m][d] for d in rows[m].segments.devices] for m in (0, 1)]
        low = limit
        met: List[Tuple[float, int, int]] = []
        for first, second in blocks(fronts):
            times = fronts[0].loads[first], fronts[1].loads[second]
            near = np.flatnonzero(simple_bounds((names[0], names[1]), times) < limit)
            if not len(near):
                continue
            length = shortest((names[0], names[1]), (times[0][near], times[1][near]), limit)
            # Of rows that were merged, the weights may say more.
            least = np.maximum(fronts[0].bound[first[near]], fronts[1].bound[second[near]])
            length = np.maximum(length, np.minimum(least, limit))
            low = min(low, float(length.min()))
            for k in np.argsort(length, kind="stable")[:HANDED_OUT]:
                if length[k] < limit:
                    met.append((float(length[k]), int(first[near[k]]), int(second[near[k]])))
            if self.pair.is_late:
                low = -INFINITY
                break
        for length_us, *of_pair in sorted(met)[:HANDED_OUT]:
            if length_us >= self.pair.limit:
                break
            devices = [[names[m][k] for k in fronts[m].choices[row]] for m, row in enumerate(of_pair)]
            self.pair.best.offer(self.pair.placed(devices[0], devices[1]))
        return low


def _others(fronts: Dict[int, Tuple[int, Front]], partners: Set[int], limit: float) -> Optional[Disjunctions]:
    """What the other model leaves, where all of its placements below the limit are known."""
    if not partners <= set(fronts) or any(fronts[k][1].lost < limit for k in partners):
        return None
    return Disjunctions([fronts[k][1].loads for k in sorted(partners)], limit)
