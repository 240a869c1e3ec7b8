"""The makespan of two models on one set of engines: what is known of it, and searches that know more."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.several.companion import Companion
from edgedla.placement.solvers.several.counted import Counted
from edgedla.placement.solvers.several.dives import Dives, best_pairs, dives
from edgedla.placement.solvers.several.front import Front, Graph, front
from edgedla.placement.solvers.several.lengths import shortest, simple_bounds
from edgedla.placement.solvers.several.one_model import problem_of_model
from edgedla.placement.solvers.several.pair_weights import (
    climbed_weights,
    coarse_weights,
    of_model,
    weights_around,
)
from edgedla.placement.solvers.several.segmented import Segmented
from edgedla.placement.solvers.streams.frontier import Frontier, State
from edgedla.placement.solvers.streams.load_weights import Prices
from edgedla.vocabulary import GPU

#: From the second size on, the lower half of the gap is closed first where the gap is wider than this share of the value:
#: far fewer states and rows lie there.
HALVED = 2e-3

#: Pairs that are compared at once, and placements whose schedules are searched for.
PAIRS, HANDED_OUT = 250_000, 12

#: Rows of a front without segments: its two columns are cheap to compare.
ROWS_WITHOUT_ORDER = 20_000

#: Rows of a front that only looks for placements.
FEW_ROWS = 2_000

#: A placement shorter by this share is a reason to start anew: much of what is to be looked at then falls away.
SHORTER = 1e-3


class _Row(NamedTuple):
    """The placements of a model with so many loadables: the row of its segments, the graph, and by weight their least."""

    segmented: Segmented
    graph: Graph
    least: np.ndarray


class PairSearch:
    """The search on one set of engines.

    With two cores each model has one of its own. That leaves nothing out: the cores are alike, and a model that uses both
    is no slower with all its loadables on one, where no other model's are.

    Attributes:
        bound: no pair of placements on these engines is shorter; one that reaches what was asked for may be taken for it.
    """

    def __init__(self, problem: Problem, engines: Tuple[str, ...], best: Best, gap: float, deadline: float) -> None:
        self.problem, self.engines, self.best, self.gap, self.deadline = problem, engines, best, gap, deadline
        cores = [d for d in engines if d != GPU]
        own = cores[0] if cores else None
        #: By model, the names of its devices.
        self.names = [(GPU, *cores[:1]), (GPU, *cores[-1:])]
        reach = tuple(d for d in engines if d in (GPU, own))
        self.models = [problem_of_model(problem, m) for m in (0, 1)]
        self.frontiers = [Frontier(model, reach) for model in self.models]
        self.factors = np.array([problem.factor(frozenset(engines), d) for d in self.frontiers[0].devices])
        # A core that a model has for itself is busy for no longer than the model runs.
        self.weighed = np.array([True, *(len(cores) == 1 for _ in cores[:1]), True, True])
        self._models: Dict[Tuple[int, int, bool], Any] = {}
        #: By model, the placements of the other one in this look.
        self._companions: List[Optional[Companion]] = [None, None]
        self._gpu_row = 0
        grid = coarse_weights(self.weighed)
        least = self._dive(grid)
        self.weights, self.bound = grid[int(least.argmax())], float(least.max())
        if self.bound < self.limit and time.monotonic() < deadline:
            self.bound, self.weights = climbed_weights(
                self.frontiers, self.factors, self.weighed, self.weights, self.bound
            )

    @property
    def limit(self) -> float:
        return self.best.value * (1 - self.gap)

    def _dive(self, rows: np.ndarray) -> np.ndarray:
        """By row of weights, a bound; the best pairs of placements that the weights lead to are offered."""
        least = np.zeros(len(rows))
        both: List[Dives] = []
        for m in (0, 1):
            prices = Prices(self.frontiers[m], of_model(rows, m, self.factors), np.ones(len(rows), bool))
            least += prices.root
            model = self._models.setdefault((m, 0, True), Counted(self.frontiers[m], 0))
            both.append(dives(model, len(self.models[m].items), prices))
        for bound, a, b in best_pairs(both, self.factors, self.names)[:HANDED_OUT]:
            if bound >= self.limit:
                break
            devices = [self.names[m][k] for m, row in ((0, a), (1, b)) for k in both[m].choices[row]]
            self.best.offer(evaluate(self.problem, devices))
        return least

    def halve(self, size: Tuple[int, int, int]) -> int:
        """Looks into the lower half of the gap, where it is wide; how many times."""
        if self.limit - self.bound <= HALVED * self.best.value or time.monotonic() > self.deadline:
            return 0
        self.look(*size, share=0.5)
        return 1

    def look(self, most_loadables: int, most_states: int, width: int, share: float = 1.0) -> bool:
        """Raises `bound` or finds something shorter; True where another look of this size may do more.

        Args:
            share: of the gap above `bound`, how much is looked into.
        """
        limit = min(self.bound + share * (self.limit - self.bound), self.limit)
        rows_of_weights = weights_around(self.weights, self.weighed)
        weights = [of_model(rows_of_weights, m, self.factors) for m in (0, 1)]
        along = np.ones(len(rows_of_weights), bool)
        prices = [Prices(self.frontiers[m], weights[m], along) for m in (0, 1)]
        least = [p.root for p in prices]
        self._gpu_row = int(np.flatnonzero((rows_of_weights == np.eye(len(self.weighed))[0]).all(axis=1))[0])
        self._companions = [None, None]
        wholes: Dict[int, Front] = {}
        small, large = sorted((0, 1), key=lambda m: len(self.models[m].items))
        for turn, m in enumerate((small, large, small)):
            if turn == 2 and (m in wholes or self._companions[m] is None):
                continue
            graph = self._counted(m, 0, weights[m], least[1 - m], prices[m], limit, most_states)
            if graph.stopped:
                return False
            if graph.empty:
                self._raise(min(limit, graph.dropped))
                return False
            if graph.dropped == INFINITY:
                least[m] = graph.least
            self._raise(min(float((least[0] + least[1]).max()), graph.dropped, limit))
            # Where something is left out, what is left says less than the weights do.
            if graph.dropped >= limit:
                whole = self._without_order(graph, least[1 - m], limit)
                if whole.stopped:
                    return False
                if whole.lost >= limit:
                    wholes[m] = whole
                    self._companions[1 - m] = Companion.of(whole.loads)
        if len(wholes) == 2:
            self._raise(self._of_any_order([wholes[0], wholes[1]], limit, offered=True))
        if self.bound >= limit:
            return False
        climbed = rows_of_weights[int((least[0] + least[1]).argmax())]
        if not np.allclose(climbed, self.weights, atol=1e-6):
            self.weights = climbed
        low = limit
        rows: List[List[_Row]] = []
        for m in (0, 1):
            bound, rows_of_model = self._rows(
                m, weights[m], least[1 - m], prices[m], limit, most_loadables, most_states, wholes.get(1 - m)
            )
            low = min(low, bound)
            rows.append(rows_of_model)
            if time.monotonic() > self.deadline:
                return False
        # What is left out already says less than is known: then a few rows do, which may meet something shorter.
        low, shorter = self._pairs(rows, low, limit, width if low > self.bound else min(width, FEW_ROWS))
        self._raise(low)
        return shorter

    def _raise(self, bound: float) -> None:
        self.bound = max(self.bound, bound)

    def _counted(
        self, m: int, loadables: int, weights: np.ndarray, beside: np.ndarray, prices: Prices, limit: float, states: int
    ) -> Graph:
        def rest(i: int, behind: Sequence[Any]) -> np.ndarray:
            return prices.rest(i, [state for state, _ in behind])

        model = self._models.setdefault((m, loadables, True), Counted(self.frontiers[m], loadables))
        return Graph(
            model, len(self.models[m].items), weights, beside, rest, limit, states, self.deadline,
            self._companions[m], self._gpu_row,
        )  # fmt: skip

    def _rows(
        self,
        m: int,
        weights: np.ndarray,
        beside: np.ndarray,
        prices: Prices,
        limit: float,
        most_loadables: int,
        most_states: int,
        other: Optional[Front],
    ) -> Tuple[float, List[_Row]]:
        """(a bound of all pairs that these rows leave out, the rows of model m that a pair below the limit may have).

        Args:
            other: the placements of the other model, without order, where they are known.
        """
        frontier = self.frontiers[m]
        flat = Prices(frontier, weights, np.zeros(len(weights), bool))
        low, met = limit, False
        rows: List[_Row] = []
        for loadables in range(most_loadables + 1 if len(frontier.devices) > 1 else 1):
            segmented = self._models.setdefault((m, loadables, False), Segmented(frontier, (1,) * loadables))
            by_segment = weights[:, list(segmented.devices)]
            fixed = by_segment @ np.array(segmented.fixed)

            def rest(i: int, behind: Sequence[Any], row: Segmented = segmented) -> np.ndarray:
                states: List[State] = [row.without_segments(i, s) for s in behind]
                return flat.rest(i, states)

            graph = Graph(
                segmented,
                len(self.models[m].items),
                by_segment,
                beside + fixed,
                rest,
                limit,
                most_states,
                self.deadline,
                self._companions[m],
                self._gpu_row,
            )
            if graph.stopped:
                return -INFINITY, rows
            low = min(low, graph.dropped)
            if not graph.empty:
                rows.append(_Row(segmented, graph, graph.least + fixed))
            if graph.empty and (met or loadables > 0):
                more = self._counted(m, loadables + 1, weights, beside, prices, limit, most_states)
                if more.empty and not more.stopped:
                    return min(low, more.dropped), rows
            met = met or not graph.empty
        if len(frontier.devices) > 1:
            more = self._counted(m, most_loadables + 1, weights, beside, prices, limit, most_states)
            if more.stopped:
                return -INFINITY, rows
            low = min(low, more.dropped)
            if not more.empty and other is not None and more.dropped >= limit:
                whole = self._without_order(more, beside, limit)
                if whole.stopped:
                    return -INFINITY, rows
                low = min(low, whole.lost, self._of_any_order([whole, other], limit))
            elif not more.empty:
                low = min(low, float((more.least + beside).max()))
        return low, rows

    def _without_order(self, graph: Graph, beside: np.ndarray, limit: float) -> Front:
        """What the placements of a graph take of each device, slowdown counted, in whatever order."""
        graph.beside = beside
        whole = front(graph, limit, ROWS_WITHOUT_ORDER, self.deadline)
        return whole._replace(loads=whole.loads * self.factors)

    def _of_any_order(self, wholes: Sequence[Front], limit: float, offered: bool = False) -> float:
        """A bound of all pairs of two fronts, as if segments could run in any order; `offered`: of the models in turn, and
        the shortest ones are offered."""
        low = limit
        met: List[Tuple[float, int, int]] = []
        for first, second in _blocks((wholes[0], wholes[1])):
            times = wholes[0].loads[first], wholes[1].loads[second]
            length = simple_bounds((self.names[0], self.names[1]), times)
            length = np.maximum(length, np.maximum(wholes[0].bound[first], wholes[1].bound[second]))
            low = min(low, float(length.min()))
            if offered:
                for k in np.argsort(length, kind="stable")[:HANDED_OUT]:
                    met.append((float(length[k]), int(first[k]), int(second[k])))
        for length_us, a, b in sorted(met)[:HANDED_OUT]:
            if length_us >= self.limit:
                break
            devices = [self.names[m][k] for m, row in ((0, a), (1, b)) for k in wholes[m].choices[row]]
            self.best.offer(evaluate(self.problem, devices))
        return low

    def _pairs(self, rows: List[List[_Row]], low: float, limit: float, width: int) -> Tuple[float, bool]:
        """(a bound of these pairs and `low`, something much shorter was met: then the bound is not one)."""
        if not rows[0] or not rows[1]:
            return low, False
        beside = [np.min([r.least for r in rows[1 - m]], axis=0) for m in (0, 1)]
        fronts: List[Dict[int, Front]] = [{}, {}]
        order = sorted(
            (float((a.least + b.least).max()), i, j) for i, a in enumerate(rows[0]) for j, b in enumerate(rows[1])
        )
        for bound, i, j in order:
            if bound >= limit:
                break
            for m, k in ((0, i), (1, j)):
                if k not in fronts[m]:
                    segmented, graph, _ = rows[m][k]
                    fixed = np.array(segmented.fixed)
                    graph.beside = beside[m] + graph.weights @ fixed
                    alone = front(graph, limit, width, self.deadline)
                    if alone.stopped:
                        return -INFINITY, False
                    low = min(low, alone.lost)
                    slowed = (alone.loads + fixed) * self.factors[list(segmented.devices)]
                    fronts[m][k] = alone._replace(loads=slowed)
            before = self.best.value
            low = min(low, self._of_fronts((rows[0][i], rows[1][j]), (fronts[0][i], fronts[1][j]), limit))
            if self.best.value < before * (1 - SHORTER):
                return -INFINITY, True
            if time.monotonic() > self.deadline:
                return -INFINITY, False
        return low, False

    def _of_fronts(self, rows: Tuple[_Row, _Row], fronts: Tuple[Front, Front], limit: float) -> float:
        """A bound of all pairs of two fronts; the shortest ones are offered."""
        names = [[self.names[m][d] for d in rows[m].segmented.devices] for m in (0, 1)]
        low = limit
        met: List[Tuple[float, int, int]] = []
        for first, second in _blocks(fronts):
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
            if time.monotonic() > self.deadline:
                low = -INFINITY
                break
        for length_us, a, b in sorted(met)[:HANDED_OUT]:
            if length_us >= self.limit:
                break
            devices = [names[m][k] for m, row in ((0, a), (1, b)) for k in fronts[m].choices[row]]
            self.best.offer(evaluate(self.problem, devices))
        return low


def _blocks(fronts: Tuple[Front, Front]) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """All pairs of rows, block by block."""
    count = len(fronts[1].loads)
    size = max(PAIRS // max(count, 1), 1)
    for start in range(0, len(fronts[0].loads) if count else 0, size):
        block = np.arange(start, min(start + size, len(fronts[0].loads)))
        yield np.repeat(block, count), np.tile(np.arange(count), len(block))
