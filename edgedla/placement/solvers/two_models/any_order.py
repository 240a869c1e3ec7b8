"""The placements of both models that a pair below a limit may have, as if segments could run in any order."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import of_model
from edgedla.placement.solvers.two_models.load_front import LoadFront, front
from edgedla.placement.solvers.two_models.model_graph import Graph, OneByOne, RoomBeside, Steps
from edgedla.placement.solvers.two_models.model_states import ModelStateArrays
from edgedla.placement.solvers.two_models.pair import Pair, blocks, simple_bounds

#: States before one item with which both models are looked at first.
FEW_STATES = 200

#: Rows of weights that say most; the others are left out where states are many.
TELLING = 12

#: Rows of a front without segments: two columns are cheap to compare.
ROWS = 20_000

#: Pairs of placements that a search begins with.
SEEDS = 12


class AnyOrder:
    """One look at both models.

    Attributes:
        bound: no pair of placements is shorter.
        limit: what is looked below; falls to what was left out for want of room.
        weights: by model, (weights, devices).
        pair_weights: (weights, devices and models): what is looked at by; fewer, once it shows which say most.
        least: by model and weight, the least of its placements that may be in a pair below the limit.
        priced: the same by prices and graphs alone: what tells good weights.
        companions: by model, the placements of the other one, where all that matter are known.
        gpu_row: the row of weights that counts the GPU's time alone.
        known: all placements of both models that matter are; their fronts are in `wholes`.
    """

    def __init__(self, pair: Pair, weights: np.ndarray, bound: float, limit: float) -> None:
        self.pair, self.bound, self.limit = pair, bound, limit
        self._go_by(weights)
        self.least = [p.root for p in self._prices]
        self.priced = list(self.least)
        self._used: np.ndarray = np.zeros(len(weights), int)
        self.companions: List[Optional[RoomBeside]] = [None, None]
        self.wholes: Dict[int, LoadFront] = {}
        self.known = False
        self._graphs: Dict[int, Graph] = {}

    def look(self, most_states: int) -> bool:
        """Raises `bound`; False where the time is over or no pair is below the limit."""
        in_order = sorted((0, 1), key=lambda m: self.pair.items[m])
        # What is known of one model leaves fewer placements of the other one, and so on: those of few states come first.
        for k, states in enumerate((FEW_STATES, most_states, most_states)):
            for m in in_order:
                goes_on = self._learn(m, states, most_states)
                if goes_on is not None:
                    return goes_on
            if k == 0:
                self._tell()
        self._raise(self._bound_of(0, self.wholes[0], self.wholes[1], self.limit))
        self.known = True
        return True

    def _learn(self, m: int, states: int, most_states: int) -> Optional[bool]:
        """Looks at model m, if more is known of the other one by now; what `look` returns where that ends it."""
        if m in self._graphs and self.companions[m] is self._graphs[m].companion:
            return None
        graph = self._graph(m, states)
        if graph.stopped:
            return False
        if graph.dropped < self.limit and states < most_states:
            return None
        if graph.empty:
            self._raise(min(self.limit, graph.dropped))
            return False
        if graph.dropped == INFINITY:
            self.least[m] = np.maximum(self.least[m], graph.least)
            if self.companions[m] is None:
                self.priced[m] = graph.least
        self._raise(min(float((self.least[0] + self.least[1]).max()), graph.dropped, self.limit))
        if graph.dropped <= self.bound:
            # What is left says less than the weights do.
            return True
        # No pair below that passes states that were left out.
        self.limit = min(self.limit, graph.dropped)
        self._graphs[m] = graph
        self.wholes[m] = whole = self._front(m)
        if whole.stopped:
            return False
        if whole.lost <= self.bound:
            return True
        self.limit = min(self.limit, whole.lost)
        self.companions[1 - m] = RoomBeside.of(whole.loads)
        if len(whole.loads):
            # A mixture of placements may be below all of them: from here on the other model goes by these.
            of_rows = (whole.loads / self.pair.factors) @ self.weights[m].T
            self.least[m] = np.maximum(self.least[m], of_rows.min(axis=0))
        return None

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

    def _go_by(self, weights: np.ndarray) -> None:
        pair = self.pair
        self.pair_weights = weights
        self.weights = [of_model(weights, m, pair.factors) for m in (0, 1)]
        along = np.ones(len(weights), bool)
        self._prices = [Prices(f, w, along) for f, w in zip(pair.frontiers, self.weights)]
        self.gpu_row = int(np.flatnonzero((weights == np.eye(weights.shape[1])[0]).all(axis=1))[0])

    def _tell(self) -> None:
        """Of the weights keeps those without a model's own time, which count once its placements are known, and a few others."""
        of_one: np.ndarray = (self.pair_weights[:, -2:] == 0).any(axis=1)
        of_one[int((self.priced[0] + self.priced[1]).argmax())] = True
        others = np.argsort(np.where(of_one, 0, -self._used), kind="stable")[:TELLING]
        of_one[others] = True
        rows = np.flatnonzero(of_one)
        self.least = [least[rows] for least in self.least]
        self.priced = [priced[rows] for priced in self.priced]
        self._used = self._used[rows]
        for graph in self._graphs.values():
            graph.told(rows)
        self._go_by(self.pair_weights[rows])

    def _raise(self, bound: float) -> None:
        self.bound = max(self.bound, bound)

    def _graph(self, m: int, states: int) -> Graph:
        known = self._graphs.get(m)
        if known is not None and known.dropped == INFINITY:
            known.narrow(self.limit, self.least[1 - m], self.companions[m])
            return known
        weights, prices = self.weights[m], self._prices[m]
        # A last column counts loadables.
        weights = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)
        model: Steps = OneByOne(self.pair.counted[m], prices.rest)
        if states > FEW_STATES:
            model = ModelStateArrays(self.pair.frontiers[m], prices)
        graph = Graph(
            model, self.pair.items[m], weights, self.least[1 - m], self.limit,
            states, self.pair.deadline, self.companions[m], self.gpu_row,
        )  # fmt: skip
        self._used += graph.used
        return graph

    def _front(self, m: int) -> LoadFront:
        """What the placements of model m take of each device, slowdown counted."""
        graph, factors = self._graphs[m], self.pair.factors
        graph.beside = self.least[1 - m]
        whole = front(graph, self.limit, ROWS, self.pair.deadline, len(factors))
        return whole._replace(loads=whole.loads * factors)

    def _bound_of(self, m: int, whole: LoadFront, other: LoadFront, limit: float) -> float:
        """A bound of all pairs of a front of model m and one of the other, `limit` at most."""
        lengths = [self._lengths(m, (whole, other), *rows).min() for rows in blocks((whole, other))]
        return float(min([limit, *lengths]))

    def _lengths(self, m: int, fronts: Sequence[LoadFront], first: np.ndarray, second: np.ndarray) -> np.ndarray:
        names = self.pair.names[m], self.pair.names[1 - m]
        simple = simple_bounds(names, (fronts[0].loads[first], fronts[1].loads[second]))
        lengths: np.ndarray = np.maximum(simple, np.maximum(fronts[0].bound[first], fronts[1].bound[second]))
        return lengths
