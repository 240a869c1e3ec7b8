"""States of both cores, each with the state of the same placement with the cores pooled, whose bounds it has."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from edgedla.placement.solvers.streams.fronts import Fronts
from edgedla.placement.solvers.streams.prices.load_weights import Prices
from edgedla.placement.solvers.streams.rows import Rows
from edgedla.placement.solvers.streams.state_arrays import StateArrays, distinct, packed
from edgedla.placement.solvers.streams.state_graph import StateGraph


class Guided(StateArrays):
    """States of both cores, each with the state of the same placement with the cores pooled. All models have one rate.

    Two columns follow those of `Columns`: the index of that state in the pooled graph, or -1 if no placement below the
    limit continues from there; and the number of loadables beyond the pool's, plus those that the pool has prepaid.
    """

    def __init__(self, arrays: StateArrays, pooled: StateArrays, graph: StateGraph, fronts: Fronts) -> None:
        """The guide is a pooled graph from which no state was dropped for lack of room."""
        super().__init__(arrays.frontier, arrays.alike, merged=True)
        self._graph = graph
        self.start = np.concatenate([self.start, np.zeros((1, 2), np.int16)], axis=1)
        self.fronts = fronts
        self._next: List[np.ndarray] = []
        self._added: List[np.ndarray] = []
        self._paid = pooled.paid
        for i, edges in enumerate(graph.edges):
            states = graph.states[i]
            following = np.full((len(states), 2), -1)
            of = np.repeat(np.arange(len(states)), np.diff(edges.first))
            following[of, edges.device] = edges.target
            self._next.append(following)
            added = np.zeros((len(states), 2), np.int16)
            for d in pooled.allowed[i]:
                added[:, d] = pooled.counted_step(i, states, d)[2]
            self._added.append(added)

    def counted_step(self, i: int, states: np.ndarray, device: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        behind, load, new = super().counted_step(i, states, device)
        at, pooled = states[:, -2], int(device > 0)
        following = self._next[i][at, pooled].astype(np.int16)
        more = states[:, -1] + new - self._added[i][at, pooled]
        return np.concatenate([behind, following[:, None], more[:, None]], axis=1), load, new

    def there(self, states: np.ndarray) -> np.ndarray:
        there: np.ndarray = states[:, -2] >= 0
        return there

    def rest(self, i: int, states: np.ndarray, prices: Prices) -> np.ndarray:
        """The higher of two: what the prices give, and what the pool still needs with fewer loadables than stand so far."""
        loadable_us = self.frontier.loadable_us * self.frontier.problem.rates[0]
        saved = (states[:, -1] - self._paid) * loadable_us
        pooled = self._graph.ahead[i][states[:, -2]] - saved[:, None] * self._graph.weights[:, 1]
        higher: np.ndarray = np.maximum(super().rest(i, states, prices), pooled)
        return higher

    def kinds(self, states: np.ndarray) -> np.ndarray:
        return distinct(packed(states[:, :-2]))[1]

    def bounds(self, i: int, states: np.ndarray, rows: Rows) -> np.ndarray:
        at, more = states[rows.state, -2], states[rows.state, -1]
        pool = rows.pool + (self._paid - more) * self.frontier.loadable_us * self.frontier.problem.rates[0]
        return self.fronts.bounds(i, at, np.stack([rows.loads[:, 0], pool], axis=1))
