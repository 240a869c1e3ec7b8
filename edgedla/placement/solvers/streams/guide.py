"""Bounds of placements on two cores, from exact Pareto fronts of the remaining loads with both cores pooled into one."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from edgedla.placement.solvers.streams.rows import Rows, ranges, row_maxima
from edgedla.placement.solvers.streams.state_arrays import StateArrays, distinct, packed
from edgedla.placement.solvers.streams.state_graph import StateGraph

#: Most points of all fronts at one position; beyond it, points within this share of the limit are merged, and its growth.
POINTS, CLOSE, CLOSER = 20_000, 2.0**-16, 2.0


class Fronts:
    """Per position and state of a pooled graph: the Pareto-minimal pairs of loads (GPU, pool) from there to the end.

    A front's points are sorted by rising GPU load, hence falling pool load. Points that belong to no placement below the
    limit are left out. A merged point has the lowest load of each device among the points it replaces.
    """

    def __init__(self, graph: StateGraph, factors: np.ndarray, limit: float) -> None:
        self.factors = factors
        self.first: List[np.ndarray] = [np.array([0, *np.ones(len(graph.states[-1]), int).cumsum()])]
        self.points: List[np.ndarray] = [np.zeros((len(graph.states[-1]), 2))]
        for i in range(len(graph.edges) - 1, -1, -1):
            self._add(graph, i, limit)
        self.first.reverse()
        self.points.reverse()

    def _add(self, graph: StateGraph, i: int, limit: float) -> None:
        edges, first, points = graph.edges[i], self.first[-1], self.points[-1]
        counts = np.diff(first)[edges.target]
        edge = np.repeat(np.arange(len(counts)), counts)
        loads = points[ranges(first[edges.target], counts)] + edges.load[edge]
        state = np.repeat(np.arange(len(edges.first) - 1), np.diff(edges.first))[edge]
        bound = np.empty(len(state))
        for start in range(0, len(state), 16384):
            part = slice(start, start + 16384)
            bound[part] = row_maxima(loads[part] @ graph.weights.T + graph.behind[i][state[part]])
        keep = bound < limit
        state, loads = _least(state[keep], loads[keep])
        side = limit * CLOSE
        while len(state) > POINTS:
            state, loads = _least(state, loads, side)
            side *= CLOSER
        self.first.append(np.searchsorted(state, np.arange(len(edges.first))))
        self.points.append(loads)

    def bounds(self, i: int, state: np.ndarray, loads: np.ndarray) -> np.ndarray:
        """The shortest period reachable from each row: its state before item i plus its loads of the GPU and the pool."""
        first, points = self.first[i], self.points[i]
        if not len(points):
            return np.full(len(state), np.inf)
        low, high = first[state], first[state + 1]
        end = high
        # Binary search for the first point at which the GPU's load is the higher one.
        for _ in range(int(np.diff(first).max()).bit_length()):
            middle = (low + high) // 2
            slowed = (loads + points[np.minimum(middle, len(points) - 1)]) * self.factors
            over = slowed[:, 0] >= slowed[:, 1]
            searching = low < high
            high = np.where(searching & over, middle, high)
            low = np.where(searching & ~over, middle + 1, low)
        at = np.minimum(low, len(points) - 1)
        here = np.where(low < end, row_maxima((loads + points[at]) * self.factors), np.inf)
        before = np.where(low > first[state], row_maxima((loads + points[low - 1]) * self.factors), np.inf)
        return np.minimum(here, before)


def _least(state: np.ndarray, loads: np.ndarray, side: float = 0.0) -> Tuple[np.ndarray, np.ndarray]:
    """The Pareto-minimal points per state, sorted. With `side`, first merges the points in each strip of GPU load."""
    order = np.lexsort((loads[:, 1], loads[:, 0], state))
    state, loads = state[order], loads[order]
    if not len(state):
        return state, loads
    if side:
        strip = np.floor(loads[:, 0] / side)
        starts = np.flatnonzero(np.r_[True, (state[1:] != state[:-1]) | (strip[1:] != strip[:-1])])
        state, loads = state[starts], np.minimum.reduceat(loads, starts, axis=0)
    # Shift each state's points below those of all earlier states, so that one running minimum serves all.
    height = loads[:, 1] - state * (loads[:, 1].max() + 1.0)
    lowest = np.minimum.accumulate(height)
    keep = np.r_[True, height[1:] < lowest[:-1]]
    return state[keep], loads[keep]


class Guided(StateArrays):
    """States of both cores, each with the state of the same placement with the cores pooled.

    Two columns follow those of `Columns`: the index of that state in the pooled graph, or -1 if no placement below the
    limit continues from there; and the number of loadables beyond the pool's, plus those that the pool has prepaid.
    """

    def __init__(
        self, arrays: StateArrays, pooled: StateArrays, graph: StateGraph, factors: np.ndarray, limit: float
    ) -> None:
        """The guide is a pooled graph from which no state was dropped for lack of room."""
        super().__init__(arrays.frontier, arrays.alike, merged=True)
        self.start = np.concatenate([self.start, np.zeros((1, 2), np.int16)], axis=1)
        self.fronts = Fronts(graph, factors, limit)
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

    def kinds(self, states: np.ndarray) -> np.ndarray:
        return distinct(packed(states[:, :-2]))[1]

    def bounds(self, i: int, states: np.ndarray, rows: Rows) -> np.ndarray:
        at, more = states[rows.state, -2], states[rows.state, -1]
        pool = rows.pool + (self._paid - more) * self.frontier.loadable_us * self.frontier.problem.rates[0]
        return self.fronts.bounds(i, at, np.stack([rows.loads[:, 0], pool], axis=1))
