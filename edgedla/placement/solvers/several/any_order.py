"""The placements of both models that a pair below a limit may have, as if segments could run in any order."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.several.companion import Companion
from edgedla.placement.solvers.several.counted import CountedArrays
from edgedla.placement.solvers.several.front import Front, front
from edgedla.placement.solvers.several.graph import Graph, OneByOne, Steps
from edgedla.placement.solvers.several.lengths import simple_bounds
from edgedla.placement.solvers.several.pair import Pair, blocks
from edgedla.placement.solvers.several.pair_weights import of_model
from edgedla.placement.solvers.streams.load_weights import Prices

#: States before one item with which both models are looked at first.
FEW_STATES = 200

#: Rows of a front without segments: two columns are cheap to compare.
ROWS_WITHOUT_ORDER = 20_000

#: Loadables of one model that are looked into; for more, what holds in any order stands.
MOST_LOADABLES = 8

#: Loadables where a model has too many placements to know that.
FEW_LOADABLES = 2

#: Pairs of placements that a search begins with.
SEEDS = 12


class AnyOrder:
    """One look at both models.

    Attributes:
        bound: no pair of placements is shorter.
        limit: what is looked below; falls to what was left out for want of room.
        weights: by model, (weights, devices).
        least: by model and weight, the least of its placements.
        companions: by model, the placements of the other one, where all that matter are known.
        gpu_row: the row of weights that counts the GPU's time alone.
        known: all placements of both models that matter are; their fronts are in `wholes`.
    """

    def __init__(self, pair: Pair, weights: np.ndarray, bound: float, limit: float) -> None:
        self.pair, self.bound, self.limit = pair, bound, limit
        self.weights = [of_model(weights, m, pair.factors) for m in (0, 1)]
        along = np.ones(len(weights), bool)
        self._prices = [Prices(f, w, along) for f, w in zip(pair.frontiers, self.weights)]
        self.least = [p.root for p in self._prices]
        self.gpu_row = int(np.flatnonzero((weights == np.eye(weights.shape[1])[0]).all(axis=1))[0])
        self.companions: List[Optional[Companion]] = [None, None]
        self.wholes: Dict[int, Front] = {}
        self.known = False
        self._graphs: Dict[int, Graph] = {}

    def look(self, most_states: int) -> bool:
        """Raises `bound`; False where the time is over or no pair is below the limit."""
        small, large = sorted((0, 1), key=lambda m: self.pair.items[m])
        # What is known of one model leaves fewer placements of the other one, and so on: those of few states come first.
        for m, states in [(m, n) for n in (FEW_STATES, most_states, most_states) for m in (small, large)]:
            if m in self._graphs and self.companions[m] is self._graphs[m].companion:
                continue
            graph = self._graph(m, states)
            if graph.stopped:
                return False
            if graph.dropped < self.limit and states < most_states:
                continue
            if graph.empty:
                self._raise(min(self.limit, graph.dropped))
                return False
            if graph.dropped == INFINITY:
                self.least[m] = graph.least
            self._raise(min(float((self.least[0] + self.least[1]).max()), graph.dropped, self.limit))
            if graph.dropped <= self.bound:
                # What is left says less than the weights do.
                return True
            # No pair below that passes states that were left out.
            self.limit = min(self.limit, graph.dropped)
            self._graphs[m] = graph
            self.wholes[m] = self._front(m)
            if self.wholes[m].stopped:
                return False
            if self.wholes[m].lost <= self.bound:
                return True
            self.limit = min(self.limit, self.wholes[m].lost)
            self.companions[1 - m] = Companion.of(self.wholes[m].loads)
        self._raise(self._bound_of(0, self.wholes[0], self.wholes[1], self.limit))
        self.known = True
        return True

    def seeds(self) -> List[Evaluation]:
        """The shortest pairs, if order did not matter."""
        met: List[Tuple[float, int, int]] = []
        whole, other = self.wholes[0], self.wholes[1]
        for first, second in blocks((whole, other)):
            length = self._lengths(0, (whole, other), first, second)
            for k in np.argsort(length, kind="stable")[:SEEDS]:
                met.append((float(length[k]), int(first[k]), int(second[k])))
        return [
            self.pair.placed(self.pair.named(0, whole.choices[a]), self.pair.named(1, other.choices[b]))
            for length_us, a, b in sorted(met)[:SEEDS] if length_us < self.pair.limit
        ]  # fmt: skip

    def most_loadables(self) -> Tuple[List[int], float]:
        """(by model, how many loadables to look into, a bound of the pairs in which one of them has more)."""
        most, low = [FEW_LOADABLES * self.pair.with_core] * 2, self.limit
        if not self.known:
            return most, self.bound
        for m in (0, 1) if self.pair.with_core else ():
            # To tell few counts apart takes far fewer rows.
            for counted in (FEW_LOADABLES, MOST_LOADABLES):
                whole = self._front(m, counted)
                if whole.stopped:
                    return most, -INFINITY
                beyond = [
                    min(whole.lost, self._bound_of(m, whole.rows(whole.loadables > k), self.wholes[1 - m], low))
                    for k in range(counted + 1)
                ]
                most[m] = next((k for k, bound in enumerate(beyond) if bound >= low), counted)
                if beyond[-1] >= low:
                    break
            low = min(low, beyond[-1])
        return most, low

    def _raise(self, bound: float) -> None:
        self.bound = max(self.bound, bound)

    def _graph(self, m: int, states: int) -> Graph:
        weights, prices = self.weights[m], self._prices[m]
        # A last column counts loadables.
        weights = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)
        model: Steps = OneByOne(self.pair.counted[m], prices.rest)
        if states > FEW_STATES:
            model = CountedArrays(self.pair.frontiers[m], prices)
        return Graph(
            model, self.pair.items[m], weights, self.least[1 - m], self.limit,
            states, self.pair.deadline, self.companions[m], self.gpu_row,
        )  # fmt: skip

    def _front(self, m: int, counted: int = -1) -> Front:
        """What the placements of model m take of each device, slowdown counted.

        Args:
            counted: how many loadables are told from more; none without it.
        """
        graph, factors = self._graphs[m], self.pair.factors
        graph.beside = self.least[1 - m]
        whole = front(graph, self.limit, ROWS_WITHOUT_ORDER, self.pair.deadline, len(factors), counted)
        return whole._replace(loads=whole.loads * factors)

    def _bound_of(self, m: int, whole: Front, other: Front, limit: float) -> float:
        """A bound of all pairs of a front of model m and one of the other, `limit` at most."""
        lengths = [self._lengths(m, (whole, other), *rows).min() for rows in blocks((whole, other))]
        return float(min([limit, *lengths]))

    def _lengths(self, m: int, fronts: Sequence[Front], first: np.ndarray, second: np.ndarray) -> np.ndarray:
        names = self.pair.names[m], self.pair.names[1 - m]
        simple = simple_bounds(names, (fronts[0].loads[first], fronts[1].loads[second]))
        lengths: np.ndarray = np.maximum(simple, np.maximum(fronts[0].bound[first], fronts[1].bound[second]))
        return lengths
