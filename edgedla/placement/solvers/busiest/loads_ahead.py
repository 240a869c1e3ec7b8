"""Exact Pareto fronts of the remaining loads: the GPU's against the sum of the cores', from each state of a graph to the end."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from edgedla.placement.solvers.busiest.rows import FINEST_BOX, Rows, ranges, row_maxima
from edgedla.placement.solvers.states.state_graph import StateGraph

#: Most points of all fronts at one position; beyond it, neighbours are merged in ever wider strips.
POINTS = 20_000


class LoadsAhead:
    """Per position and state of a graph: the Pareto-minimal pairs (GPU's load, sum of the cores' loads) from there to the end.

    The busiest core has at least its share of the sum, so the pairs give a lower bound of the period; with one core, the
    period itself. Weighted means of the loads bound it by what a mixture of placements would take; the pairs do not mix.

    A front's points are sorted by rising GPU load, hence falling sum. Points that belong to no placement below the limit
    are left out. A merged point has the lowest of each among the points it replaces.
    """

    def __init__(self, graph: StateGraph, factors: np.ndarray, limit: float) -> None:
        """`factors`: slowdown by device of the graph."""
        cores = factors[1:]
        self.factors = np.array([factors[0], cores.min() / len(cores) if len(cores) else 0.0])
        self._weights = in_pairs(graph.weights)
        self.first: List[np.ndarray] = [np.array([0, *np.ones(len(graph.states[-1]), int).cumsum()])]
        self.points: List[np.ndarray] = [np.zeros((len(graph.states[-1]), 2))]
        for i in range(len(graph.edges) - 1, -1, -1):
            self._add(graph, i, limit)
        self.first.reverse()
        self.points.reverse()

    @property
    def root(self) -> float:
        """The lower bound of all placements below the limit; infinite if there is none."""
        return float(self.bounds(0, np.zeros(1, int), np.zeros((1, 2)))[0])

    def shortest(self, graph: StateGraph) -> List[int]:
        """Devices by item, as numbers, along the path that the root's bound stands for: the shortest one, but for what merging loses."""
        devices, state, loads = [], 0, np.zeros((1, 2))
        for i, edges in enumerate(graph.edges):
            out = slice(edges.first[state], edges.first[state + 1])
            reached = loads + edges.load[out]
            best = int(self.bounds(i + 1, edges.target[out], reached).argmin())
            devices.append(int(edges.device[out][best]))
            state, loads = int(edges.target[out][best]), reached[best : best + 1]
        return devices

    def _add(self, graph: StateGraph, i: int, limit: float) -> None:
        edges, first, points = graph.edges[i], self.first[-1], self.points[-1]
        counts = np.diff(first)[edges.target]
        edge = np.repeat(np.arange(len(counts)), counts)
        added = np.stack([edges.load[:, 0], edges.load[:, 1:].sum(axis=1)], axis=1)
        loads = points[ranges(first[edges.target], counts)] + added[edge]
        state = np.repeat(np.arange(len(edges.first) - 1), np.diff(edges.first))[edge]
        bound = np.empty(len(state))
        for start in range(0, len(state), 16384):
            part = slice(start, start + 16384)
            bound[part] = graph.bound_of(loads[part] @ self._weights.T + graph.behind[i][state[part]])
        keep = bound < limit
        state, loads = _least(state[keep], loads[keep])
        side = limit * FINEST_BOX
        # Each state keeps a point: beyond a strip as wide as the limit there is nothing more to merge.
        while len(state) > POINTS and side <= limit:
            state, loads = _least(state, loads, side)
            side *= 2.0
        self.first.append(np.searchsorted(state, np.arange(len(edges.first))))
        self.points.append(loads)

    def of_rows(self, i: int, rows: Rows) -> np.ndarray:
        """A lower bound of the period of each partial placement before item i; `rows.state` indexes the graph's states."""
        return self.bounds(i, rows.state, np.stack([rows.loads[:, 0], rows.pool], axis=1))

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


def in_pairs(loads: np.ndarray) -> np.ndarray:
    """Weights of the engines turned into such of the GPU and of the sum of the cores' loads: the lowest of a core is sure."""
    cores = loads[:, 1:].min(axis=1) if loads.shape[1] > 1 else np.zeros(len(loads))
    return np.stack([loads[:, 0], cores], axis=1)
