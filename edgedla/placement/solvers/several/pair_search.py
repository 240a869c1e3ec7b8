"""The makespan of two models on one set of engines: what is known of it, and searches that know more."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.evaluate import Evaluation, evaluate
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
from edgedla.placement.solvers.several.turns import Turns
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.load_weights import Prices
from edgedla.vocabulary import GPU

#: States before one item with which both models are looked at first.
FEW_STATES = 200

#: Pairs that are compared at once, and placements whose schedules are searched for.
PAIRS, HANDED_OUT = 250_000, 12

#: Rows of a front without segments: two columns are cheap to compare.
ROWS_WITHOUT_ORDER = 20_000

#: Loadables of one model that are looked into; for more, what holds in any order stands.
MOST_LOADABLES = 8

#: Loadables where a model has too many placements to know that.
FEW_LOADABLES = 2

#: Rows of a front, as far as fewer leave a bound below what is asked for.
WIDTHS = (2_000, 6_000, 16_000)

#: (loadables of one model, states before one item, rows of a front) to look for placements alone.
GLANCES = ((2, 400, 3_000),)


#: Share of the time left that a search in turns may take.
TURNING = 0.25

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
        self._counted_models = [Counted(f) for f in self.frontiers]
        self._segmented: Dict[Tuple[int, int], Segmented] = {}
        #: By model, the placements of the other one in this look.
        self._companions: List[Optional[Companion]] = [None, None]
        self._gpu_row = 0
        self._glanced = INFINITY
        grid = coarse_weights(self.weighed)
        least = self._dive(grid)
        self.weights, self.bound = grid[int(least.argmax())], float(least.max())
        if self.bound < self.limit and time.monotonic() < deadline:
            self.bound, self.weights = climbed_weights(
                self.frontiers, self.factors, self.weighed, self.weights, self.bound
            )
        self._turns: Optional[Turns] = None
        if self.bound < self.limit:
            self._turns = Turns(problem, best, self.names, self._counted_models, self.factors, deadline)
            now = time.monotonic()
            self._turns.begin(min(deadline, now + TURNING * (deadline - now)))
            self._take_turns()

    def _take_turns(self, seeds: Sequence[Evaluation] = ()) -> None:
        if self._turns is not None and self.best.evaluation is not None:
            now = time.monotonic()
            self._turns.improve(
                [self.best.evaluation, *seeds], min(self.deadline, now + TURNING * (self.deadline - now))
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
            both.append(dives(self._counted_models[m], len(self.models[m].items), prices))
        for bound, a, b in best_pairs(both, self.factors, self.names)[:HANDED_OUT]:
            if bound >= self.limit:
                break
            devices = [self.names[m][k] for m, row in ((0, a), (1, b)) for k in both[m].choices[row]]
            self.best.offer(evaluate(self.problem, devices))
        return least

    def look(self, most_states: int, share: float = 1.0) -> bool:
        """Raises `bound` or finds something shorter; True where another look of this size may do more.

        Args:
            share: of the gap above `bound`, how much is looked into: far fewer states and rows lie in its lower half.
        """
        before = self.best.value
        asked = limit = min(self.bound + share * (self.limit - self.bound), self.limit)
        rows_of_weights = weights_around(self.weights, self.weighed)
        weights = [of_model(rows_of_weights, m, self.factors) for m in (0, 1)]
        along = np.ones(len(rows_of_weights), bool)
        prices = [Prices(self.frontiers[m], weights[m], along) for m in (0, 1)]
        least = [p.root for p in prices]
        self._gpu_row = int(np.flatnonzero((rows_of_weights == np.eye(len(self.weighed))[0]).all(axis=1))[0])
        self._companions = [None, None]
        graphs: Dict[int, Graph] = {}
        wholes: Dict[int, Front] = {}
        small, large = sorted((0, 1), key=lambda m: len(self.models[m].items))
        # What is known of one model leaves fewer placements of the other one, and so on: those of few states come first.
        for m, states in [(m, n) for n in (FEW_STATES, most_states, most_states) for m in (small, large)]:
            if m in graphs and self._companions[m] is graphs[m].companion:
                continue
            graph = self._counted(m, weights[m], least[1 - m], prices[m], limit, states)
            if graph.stopped:
                return False
            if graph.dropped < limit and states < most_states:
                continue
            if graph.empty:
                self._raise(min(limit, graph.dropped))
                return self.bound >= asked
            if graph.dropped == INFINITY:
                least[m] = graph.least
            self._raise(min(float((least[0] + least[1]).max()), graph.dropped, limit))
            if graph.dropped <= self.bound:
                # What is left says less than the weights do.
                graphs = {}
                break
            # No pair below that passes states that were left out.
            limit = min(limit, graph.dropped)
            graphs[m] = graph
            wholes[m] = self._without_order(graph, least[1 - m], limit)
            if wholes[m].stopped:
                return False
            if wholes[m].lost >= limit:
                self._companions[1 - m] = Companion.of(wholes[m].loads)
        if graphs:
            self._raise(self._of_any_order(0, wholes[0], wholes[1], limit, offered=True))
        climbed = rows_of_weights[int((least[0] + least[1]).argmax())]
        if not np.allclose(climbed, self.weights, atol=1e-6):
            self.weights = climbed
        if self.bound >= limit or time.monotonic() > self.deadline:
            return self.bound >= asked
        if self.best.value < before * (1 - SHORTER):
            # Much of what is to be looked at falls away.
            return True
        most, low = self._most_loadables(graphs, wholes, least, limit)
        if low > self.bound:
            # More loadables than are looked into say no more than this.
            limit = low
        rows: List[List[_Row]] = []
        for m in (0, 1):
            dropped, rows_of_model = self._rows(m, weights[m], least[1 - m], limit, most[m], most_states)
            low = min(low, dropped)
            rows.append(rows_of_model)
            if time.monotonic() > self.deadline:
                return False
        if low > self.bound:
            self._raise(self._pairs(rows, min(low, limit), WIDTHS))
        else:
            self._glance(weights, least)
        if self.best.value < before:
            self._take_turns()
        return self.bound >= asked or self.best.value < before

    def _glance(self, weights: Sequence[np.ndarray], least: Sequence[np.ndarray]) -> None:
        """Looks for something shorter alone, among few placements; once for a limit."""
        for loadables, states, width in GLANCES:
            while self._glanced > self.limit and time.monotonic() < self.deadline:
                limit = self.limit
                rows: List[List[_Row]] = []
                for m in (0, 1):
                    most = loadables if len(self.frontiers[m].devices) > 1 else 0
                    rows.append(self._rows(m, weights[m], least[1 - m], limit, most, states, all_rows=True)[1])
                self._pairs(rows, limit, (width,))
                if self.limit == limit:
                    break
        self._glanced = self.limit

    def _raise(self, bound: float) -> None:
        self.bound = max(self.bound, bound)

    def _counted(
        self, m: int, weights: np.ndarray, beside: np.ndarray, prices: Prices, limit: float, states: int
    ) -> Graph:
        weightless = np.zeros((len(weights), 1))
        return Graph(
            self._counted_models[m], len(self.models[m].items), np.concatenate([weights, weightless], axis=1), beside,
            prices.rest, limit, states, self.deadline, self._companions[m], self._gpu_row,
        )  # fmt: skip

    def _most_loadables(
        self, graphs: Dict[int, Graph], wholes: Dict[int, Front], least: Sequence[np.ndarray], limit: float
    ) -> Tuple[List[int], float]:
        """(by model, how many loadables to look into, a bound of the pairs in which one of them has more).

        Args:
            graphs, wholes: of the placements without order; none where a model has too many.
        """
        most, low = [FEW_LOADABLES, FEW_LOADABLES], limit
        if not graphs:
            return most, self.bound
        for m in (0, 1):
            if len(self.frontiers[m].devices) == 1:
                most[m] = 0
                continue
            # To tell few counts apart takes far fewer rows.
            for counted in (FEW_LOADABLES, MOST_LOADABLES):
                whole = self._without_order(graphs[m], least[1 - m], limit, counted)
                if whole.stopped:
                    return most, -INFINITY
                for most[m] in range(counted + 1):
                    beyond = self._of_any_order(m, whole.rows(whole.loadables > most[m]), wholes[1 - m], low)
                    if beyond >= low:
                        break
                else:
                    continue
                break
            else:
                low = beyond
        return most, low

    def _rows(
        self, m: int, weights: np.ndarray, beside: np.ndarray, limit: float, most: int, states: int,
        all_rows: bool = False,
    ) -> Tuple[float, List[_Row]]:  # fmt: skip
        """(a bound of what is left out for want of room, the rows of model m with up to `most` loadables).

        Once more is left out than the bound allows, the further rows are looked at only as `all_rows`.
        """
        frontier = self.frontiers[m]
        flat = Prices(frontier, weights, np.zeros(len(weights), bool))
        low = limit
        rows: List[_Row] = []
        for loadables in range(most + 1):
            segmented = self._segmented.setdefault((m, loadables), Segmented(frontier, (1,) * loadables))
            by_segment = weights[:, list(segmented.devices)]
            fixed = by_segment @ np.array(segmented.fixed)

            def rest(i: int, behind: Sequence[Any], row: Segmented = segmented) -> np.ndarray:
                return flat.rest(i, [row.without_segments(i, s) for s in behind])

            graph = Graph(
                segmented, len(self.models[m].items), by_segment, beside + fixed, rest, limit, states, self.deadline,
                self._companions[m], self._gpu_row,
            )  # fmt: skip
            if graph.stopped:
                return -INFINITY, rows
            low = min(low, graph.dropped)
            if not graph.empty:
                rows.append(_Row(segmented, graph, graph.least + fixed))
            if low <= self.bound and not all_rows:
                break
        return low, rows

    def _without_order(self, graph: Graph, beside: np.ndarray, limit: float, counted: int = -1) -> Front:
        """What the placements of a graph take of each device, slowdown counted, in whatever order.

        Args:
            counted: how many loadables are told from more; none without it.
        """
        graph.beside = beside
        whole = front(graph, limit, ROWS_WITHOUT_ORDER, self.deadline, len(self.factors), counted)
        return whole._replace(loads=whole.loads * self.factors)

    def _of_any_order(self, m: int, whole: Front, other: Front, limit: float, offered: bool = False) -> float:
        """A bound of all pairs of a front of model m and one of the other, as if segments could run in any order.

        Args:
            offered: the shortest ones are.
        """
        low = limit
        met: List[Tuple[float, int, int]] = []
        for first, second in _blocks((whole, other)):
            times = whole.loads[first], other.loads[second]
            length = simple_bounds((self.names[m], self.names[1 - m]), times)
            length = np.maximum(length, np.maximum(whole.bound[first], other.bound[second]))
            low = min(low, float(length.min()))
            if offered:
                for k in np.argsort(length, kind="stable")[:HANDED_OUT]:
                    met.append((float(length[k]), int(first[k]), int(second[k])))
        seeds: List[Evaluation] = []
        for length_us, a, b in sorted(met)[:HANDED_OUT]:
            if length_us >= self.limit:
                break
            rows = {m: whole.choices[a], 1 - m: other.choices[b]}
            seeds.append(evaluate(self.problem, [self.names[n][k] for n in (0, 1) for k in rows[n]]))
        if seeds:
            self._take_turns(seeds)
        return low

    def _pairs(self, rows: List[List[_Row]], limit: float, widths: Sequence[int]) -> float:
        """A bound of these pairs, `limit` at most; none where something much shorter is met, or the time is over."""
        if not rows[0] or not rows[1]:
            return limit
        beside = [np.min([r.least for r in rows[1 - m]], axis=0) for m in (0, 1)]
        fronts: List[Dict[int, Tuple[int, Front]]] = [{}, {}]
        order = sorted(
            (float((a.least + b.least).max()), i, j) for i, a in enumerate(rows[0]) for j, b in enumerate(rows[1])
        )
        before = self.best.value
        left = [(i, j) for bound, i, j in order if bound < limit]
        reached: Dict[Tuple[int, int], float] = {}
        for width in widths:
            for i, j in left:
                for m, k in ((0, i), (1, j)):
                    had = fronts[m].get(k)
                    if had is None or (had[0] < width and had[1].merged):
                        alone = self._front(rows[m][k], beside[m], limit, width)
                        if alone.stopped:
                            return -INFINITY
                        fronts[m][k] = width, alone
                both = fronts[0][i][1], fronts[1][j][1]
                reached[i, j] = min(self._of_fronts((rows[0][i], rows[1][j]), both, limit), both[0].lost, both[1].lost)
                if self.best.value < before * (1 - SHORTER) or time.monotonic() > self.deadline:
                    return -INFINITY
            # Rows that stand for one placement each say no more when there are more of them.
            left = [
                (i, j) for i, j in left
                if reached[i, j] < limit and (fronts[0][i][1].merged or fronts[1][j][1].merged)
            ]  # fmt: skip
        return min([limit, *reached.values()])

    def _front(self, row: _Row, beside: np.ndarray, limit: float, width: int) -> Front:
        """The placements of a row, slowdown and what loadables cost counted."""
        fixed = np.array(row.segmented.fixed)
        row.graph.beside = beside + row.graph.weights @ fixed
        alone = front(row.graph, limit, width, self.deadline)
        slowed = (alone.loads + fixed) * self.factors[list(row.segmented.devices)]
        return alone._replace(loads=slowed)

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
