"""The search for two models by how their holds of the GPU alternate."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import NEVER, Deadline, Stopwatch
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers import highs
from edgedla.placement.solvers.holds.both_models import BothModels
from edgedla.placement.solvers.holds.hold_arrays import HoldArrays
from edgedla.placement.solvers.holds.known_holds import KnownHolds, Priced, with_one_more
from edgedla.placement.solvers.holds.mixture import climbed
from edgedla.placement.solvers.holds.sequence import paths
from edgedla.placement.solvers.holds.to_come import ToCome
from edgedla.placement.solvers.several.companion import Companion
from edgedla.placement.solvers.several.front import front
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.pair import Pair, blocks
from edgedla.placement.solvers.several.segment_arrays import without_time
from edgedla.placement.solvers.streams.prices.load_weights import Prices

#: States before one item; and where it is to be seen soon whether there is a proof.
STATES, SOON = 40_000, 8_000

#: States before one item of graphs that show which weights say most.
FEW_STATES = 300

#: Steps of a climb to the best weights; by few states they are not sought for long.
STEPS, FEW_STEPS = 24, 3

#: How many weights are used with open paths, and with closed ones.
TELLING = 3, 12

#: Holds that are told apart at most.
MOST_HOLDS = 16

#: Shares of the time that may pass and of the gap that has to be closed by then where there shall be a proof.
MUCH, LITTLE = 0.75, 0.2

#: Share of the time in which the models have to be met in any order, likewise.
AT_FIRST = 0.15

#: How often graphs are narrowed by one kind of paths, and how much smaller they have to get each time.
ROUNDS, SMALLER = (1, 3), 0.7

#: Ways of both graphs up to which pairs of placements are looked at one by one.
MOST_LEFT = 8_000

#: Rows of a front, and pairs of two fronts that are offered.
WIDTH, OFFERED = 3_000, 4


class _Node(NamedTuple):
    """Pairs with so many holds told apart from those of model `first` on; `low` is known of them."""

    low: float
    first: int
    holds: int
    models: BothModels


class HoldSearch:
    """In a schedule of two models the holds of the GPU alternate: one model's, then the other's, and so on.

    Holds are told apart one after the other, from the start; all the rest of both models may come in any order. Either the
    rest is one more hold of each model, which is looked into, or there are more holds, and the next one is told from the rest.
    Each time the best mixture of paths through the schedule leaves fewer placements of both models; so the graphs with one
    more hold begin with few states. There is an end where no placements are left.

    Args:
        weights: (weights, 3): of the GPU's load and of both models' own times, those that say most.
        least: by model and weight, what it takes at least.
    """

    def __init__(self, pair: Pair, weights: np.ndarray, least: Sequence[np.ndarray]) -> None:
        self._pair, self._until, self._asked = pair, NEVER, INFINITY
        # The GPU's load alone comes last.
        self._weights = np.concatenate([weights, [[1.0, 0.0, 0.0]]])
        self._least = [np.append(of_model, 0.0) for of_model in least]
        self._factors = [float(pair.factors[k]) for k in (0, 1)]
        self._to_come = [ToCome(f) for f in pair.frontiers]
        #: A bound of what was left out for want of room.
        self._lost, self._proves = INFINITY, False

    @staticmethod
    def can_run(pair: Pair) -> bool:
        """True if each model has a core of its own and what the GPU runs between two loadables takes time."""
        return len(pair.cores) == 2 and highs.available() and not any(without_time(f)[0] for f in pair.frontiers)

    @property
    def limit(self) -> float:
        """What pairs have to be below to matter."""
        return min(self._asked, self._lost, self._pair.limit)

    def run(self, bound: float, asked: float, until: Deadline, proves: bool = False) -> float:
        """A bound of all pairs, `asked` at most; the shortest ones met are offered.

        Args:
            bound: what is known of them.
            proves: a lower bound than what is asked for is of no use.
        """
        self._asked, self._until, self._lost = asked, until, INFINITY
        self._proves, watch, all_s = proves, Stopwatch(), until.left_s
        low_of_closed = INFINITY
        if proves:
            self._until = until.part(AT_FIRST)
        models = self._in_any_order()
        if models is None:
            return self._reached(self._asked if self._is_in_time else bound)
        self._until = until
        low, rows, models = self._narrowed(models, (0, 0, False), bound)
        if low >= self.limit:
            return self._reached(low)
        nodes = self._with_one_each(models, rows, low)
        if nodes is None:
            return self._reached(low)
        while nodes and self._is_in_time:
            node = min(nodes, key=lambda node: node.low)
            if node.low >= min(low_of_closed, self.limit):
                break
            nodes.remove(node)
            at_least, with_more = self._looked_at(node)
            low_of_closed = min(low_of_closed, at_least)
            nodes += with_more
            lowest = min([low_of_closed, *(node.low for node in nodes)])
            if proves and (low_of_closed < self.limit or self._is_slow(bound, lowest, watch.seconds, all_s)):
                break
        return self._reached(max(bound, min([low_of_closed, *(node.low for node in nodes)])))

    @property
    def _is_in_time(self) -> bool:
        return not self._until.passed and not (self._proves and self._lost < min(self._asked, self._pair.limit))

    def _is_slow(self, bound: float, low: float, passed_s: float, all_s: float) -> bool:
        """Whether much of the time has passed and little of the gap is closed."""
        passed = passed_s / max(all_s, 1e-9)
        return passed > MUCH and low - bound < LITTLE * (self.limit - bound)

    def _reached(self, low: float) -> float:
        return min(low, self.limit)

    def _in_any_order(self) -> Optional[BothModels]:
        """Both models without a hold told apart; None if nothing is left, or the time ended."""
        pair = self._pair
        companions: Dict[int, Companion] = {}
        arrays: Dict[int, HoldArrays] = {}
        graphs: Dict[int, Graph] = {}
        in_order, states = sorted((0, 1), key=lambda m: pair.items[m]), SOON if self._proves else STATES
        for m in in_order:
            w = self._weights
            rows = np.stack([w[:, 0] + w[:, 1 + m], w[:, 1 + m], w[:, 1 + m]], axis=1)
            prices = Prices(pair.frontiers[m], rows[:, :2] * pair.factors, np.zeros(len(rows), bool))
            arrays[m] = HoldArrays(pair.frontiers[m], 0, self._factors, self._to_come[m], Priced(prices))
            graph = self._graph(arrays[m], m, rows, self._least[1 - m], states, companions.get(m))
            if graph is None:
                return None
            graphs[m] = graph
            self._lost = min(self._lost, graph.dropped)
            if graph.empty:
                return None
            self._least[m] = np.maximum(self._least[m], graph.least)
            if m == in_order[0]:
                whole = front(graph, self.limit, WIDTH, self._until)
                if not whole.stopped and not whole.merged:
                    loads = np.stack([whole.loads[:, 0], whole.loads[:, 1:].sum(axis=1)], axis=1)
                    companions[1 - m] = Companion.of(loads)
        return BothModels((arrays[0], arrays[1]), (graphs[0], graphs[1]), ([], []))

    def _graph(
        self,
        arrays: HoldArrays,
        m: int,
        rows: np.ndarray,
        beside: np.ndarray,
        states: int,
        companion: Optional[Companion] = None,
    ) -> Optional[Graph]:
        """The states of model m below the limit; None if the time ended."""
        graph = Graph(
            arrays, self._pair.items[m], rows, beside, self.limit, states, self._until, companion, len(rows) - 1
        )
        return None if graph.stopped else graph

    def _with_one_each(self, models: BothModels, rows: List[np.ndarray], low: float) -> Optional[List[_Node]]:
        """The pairs with one hold of each model told apart, by the model that begins; None if the time ended."""
        small = int(models.sizes[1] < models.sizes[0])
        known = [KnownHolds(arrays, graph) for arrays, graph in zip(models.arrays, models.graphs)]
        beside = self._beside(models, small, rows)
        one = self._told_apart(
            models, small, known[small], with_one_more(rows[small]), beside, SOON if self._proves else STATES
        )
        if one is None:
            return None
        self._lost = min(self._lost, one.graphs[small].dropped)
        if one.graphs[small].empty:
            return []
        rows[small] = with_one_more(rows[small])
        large, weights = 1 - small, with_one_more(rows[1 - small])
        beside = self._beside(one, large, rows)
        both = self._told_apart(one, large, known[large], weights, beside, SOON)
        if both is None:
            return None
        if both.graphs[large].dropped == INFINITY:
            return [] if both.graphs[large].empty else [_Node(low, first, 2, both) for first in (0, 1)]
        if self._proves:
            # Far more are to be expected with more holds.
            self._lost = both.graphs[large].dropped
            return None
        nodes = []
        for first in (0, 1):
            further = self._with_one_more(one, large, rows, (first, 2, False), both)
            if further is not None:
                nodes.append(_Node(low, first, 2, further))
            elif not self._is_in_time:
                return None
        return nodes

    def _looked_at(self, node: _Node) -> Tuple[float, List[_Node]]:
        """(a bound of the pairs with as many holds as are told apart and two more, the pairs with more holds)."""
        low, first, holds, models = node
        low, rows, models = self._narrowed(models, (first, holds, False), low)
        if low >= self.limit:
            return INFINITY, []
        left = [_Node(low, first, holds, models)]
        if not self._is_in_time or holds == MOST_HOLDS:
            return low, []
        last = self._closed(models, first, holds, low)
        if not self._is_in_time or self._proves and last < self.limit:
            return last, left
        further = self._with_one_more(models, (first + holds) % 2, rows, (first, holds + 1, False))
        if further is None:
            return (last, []) if self._is_in_time else (INFINITY, left)
        return last, [_Node(low, first, holds + 1, further)]

    def _narrowed(
        self, models: BothModels, kind: Tuple[int, int, bool], low: float
    ) -> Tuple[float, List[np.ndarray], BothModels]:
        """(a bound, by model the weights that say most, what is left of both models) by one kind of `paths`."""
        of_kind = paths(*kind)
        rows: List[np.ndarray] = []
        for _ in range(ROUNDS[kind[2]]):
            limit = self.limit
            reached, mixtures = climbed(models.graphs, of_kind, limit, self._until, STEPS, TELLING[kind[2]], models.met)
            low = max(low, min(reached, limit))
            rows = [mixtures @ p for p in of_kind]
            if reached >= limit or not self._is_in_time:
                break
            size = sum(models.sizes)
            least = [models.graphs[1].ahead_of(rows[1])[0][0], np.zeros(0)]
            for m in (0, 1):
                graph = models.graphs[m].narrowed(rows[m], least[m], limit, with_states=not kind[2])
                if graph.stopped:
                    return low, rows, models
                models = models.having(m, graph)
                if graph.empty:
                    return limit, rows, models
                least[1 - m] = graph.least
            models = models.below(limit, rows, least)
            if sum(models.sizes) > SMALLER * size:
                break
        return low, rows, models

    def _with_one_more(
        self,
        models: BothModels,
        m: int,
        rows: Sequence[np.ndarray],
        kind: Tuple[int, int, bool],
        few: Optional[BothModels] = None,
    ) -> Optional[BothModels]:
        """Both models with one more hold of model m told apart; None if nothing is left, or the time ended.

        Args:
            kind: of the `paths` with that hold.
            few: the same with few states, if known.
        """
        known = KnownHolds(models.arrays[m], models.graphs[m])
        weights, beside = with_one_more(rows[m]), self._beside(models, m, rows)
        further = few or self._told_apart(models, m, known, weights, beside, FEW_STATES)
        if further is not None and further.graphs[m].dropped < INFINITY:
            met: List[np.ndarray] = []
            if not further.graphs[m].empty:
                # By what few states say of the weights, fewer are met.
                of_kind = paths(*kind)
                _, mixtures = climbed(
                    further.graphs, of_kind, self.limit, self._until, FEW_STEPS, TELLING[0], further.met
                )
                weights = np.concatenate([weights, mixtures @ of_kind[m]])
                beside = np.concatenate([beside, self._beside(models, m, [mixtures @ p for p in of_kind])])
                met = [load for load in further.met[m] if (weights @ load + beside).max() < self.limit]
            further = self._told_apart(models, m, known, weights, beside, SOON if self._proves else STATES)
            if further is not None:
                further.met[m].extend(met)
                self._lost = min(self._lost, further.graphs[m].dropped)
        return None if further is None or further.graphs[m].empty else further

    @staticmethod
    def _beside(models: BothModels, m: int, rows: Sequence[np.ndarray]) -> np.ndarray:
        """By weight, the least that the other model takes."""
        least: np.ndarray = models.graphs[1 - m].ahead_of(rows[1 - m])[0][0]
        return least

    def _told_apart(
        self, models: BothModels, m: int, known: KnownHolds, weights: np.ndarray, beside: np.ndarray, states: int
    ) -> Optional[BothModels]:
        """Both models with one more hold of model m told apart, by so many states; None if the time ended."""
        holds = models.arrays[m].rest_at // 2 + 1
        arrays = HoldArrays(self._pair.frontiers[m], holds, self._factors, self._to_come[m], known.by(weights))
        graph = self._graph(arrays, m, weights, beside, states)
        return None if graph is None else models.having(m, graph, arrays)

    def _closed(self, models: BothModels, first: int, holds: int, low: float) -> float:
        """A bound of the pairs in which the rest of either model is one more hold; the shortest ones are offered."""
        kind = first, holds, True
        low, _, models = self._narrowed(models.closed(), kind, low)
        if low >= self.limit or not self._is_in_time or sum(models.sizes) > MOST_LEFT:
            return low
        limit = self.limit
        both = [front(graph, limit, WIDTH, self._until) for graph in models.graphs]
        if any(of_model.stopped for of_model in both):
            return low
        least = min(limit, both[0].lost, both[1].lost)
        met: List[Tuple[float, int, int]] = []
        lengths = [of_model.loads @ p.T for of_model, p in zip(both, paths(*kind))]
        for first_rows, second_rows in blocks((both[0], both[1])):
            if not self._is_in_time:
                return low
            length = np.zeros(len(first_rows))
            for of_first, of_second in zip(lengths[0].T, lengths[1].T):
                length = np.maximum(length, of_first[first_rows] + of_second[second_rows])
            least = min(least, float(length.min()))
            shortest = np.argsort(length, kind="stable")[:OFFERED]
            met += [(float(length[k]), int(first_rows[k]), int(second_rows[k])) for k in shortest]
        for length_us, a, b in sorted(met)[:OFFERED]:
            if length_us < self._pair.limit:
                devices = [self._pair.named(m, both[m].choices[k] & 1) for m, k in ((0, a), (1, b))]
                self._pair.best.offer(self._pair.placed(*devices))
        return max(low, least)
