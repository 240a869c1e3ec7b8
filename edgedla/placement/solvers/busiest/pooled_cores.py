"""Two equal cores pooled into one that does the work of both: fewer states, a lower bound, and a guide for the search on both."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.busiest.loads_ahead import LoadsAhead, in_pairs
from edgedla.placement.solvers.busiest.rows import Rows
from edgedla.placement.solvers.busiest.sweep import beam
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.state_arrays import StateArrays, distinct, packed
from edgedla.placement.solvers.states.state_graph import StateGraph


class Guided(StateArrays):
    """States of both cores, each with the state of the same placement with the cores pooled. All models have one rate.

    Two columns follow those of `Columns`: the index of that state in the pooled graph, or -1 if no placement below the
    limit continues from there; and the number of loadables beyond the pool's, plus those that the pool has prepaid.
    """

    def __init__(self, arrays: StateArrays, pooled: StateArrays, graph: StateGraph, fronts: LoadsAhead) -> None:
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


#: Most states of the pool before one item. A guide takes states found for a longer limit if there are no more than that in all, or the
#: limit is about the same.
MOST_STATES = 2_000

#: The first look, of the pool or of both cores, goes beyond the bound by this share; each that finds nothing twice as far, of the pool
#: up to MOST_STEP; one with too many states half as far, down to LEAST_STEP. A look of the pool that goes 8 % beyond the shortest period
#: takes ten times as long as one that goes 4 %.
STEP, MOST_STEP, LEAST_STEP = 0.01, 0.04, 0.0025

#: The parts of the pool's items between which they are divided.
CUTS = 32


class _Found(NamedTuple):
    """All states of the pool on placements below the limit, and their fronts."""

    limit: float
    graph: StateGraph
    fronts: LoadsAhead


class PooledCores:
    """The placements on a set of engines with both cores, pooled into one core.

    A pooled placement costs at most what each placement on both cores costs that it stands for: a transition to both
    cores is paid once; every stretch of a path on the pool is at least one stretch on a core, so there are no more
    loadables; and the busier core has at least half of the work. Both cores have work, so the pool of a single model
    has at least two loadables.
    """

    def __init__(self, problem: Problem, engines: Sequence[str], factors: np.ndarray, weights: np.ndarray) -> None:
        """`factors`: slowdowns of the GPU and both cores; `weights`: theirs, already multiplied by the factors."""
        frontier = Frontier(problem, tuple(e for e in engines if e != problem.cores[1]))
        self._factors = np.array([factors[0], factors[1:].min() / 2])
        self._arrays = StateArrays(frontier, False, paid=2 if len(problem.models) == 1 else 0)
        self._prices = Prices(frontier, in_pairs(weights))
        self._found: Optional[_Found] = None
        self._too_far = INFINITY

    def bounds(self, least: float, limit: float, deadline: Deadline) -> Iterator[float]:
        """Ever higher lower bounds, up to the shortest pooled period below `limit`; the same again after too many states."""
        bound, step = least, STEP
        while 0 < bound < limit and step >= LEAST_STEP:
            reach = min(bound * (1 + step), limit)
            period_us = self._look(reach, deadline)
            if period_us is None:
                if deadline.passed:
                    return
                step /= 2
                yield bound
                continue
            bound = min(period_us, reach)
            yield bound
            if period_us < reach:
                return
            step = min(2 * step, MOST_STEP)

    def beam(self, width: int, count: int, deadline: Deadline) -> Tuple[Tuple[str, ...], ...]:
        """The `count` best pooled placements of a beam, divided: in tenths of a second, where looks may take seconds."""
        _, found = beam(self._arrays, self._prices, self._factors, INFINITY, width, False, deadline)
        number = self._arrays.frontier.devices.index
        return tuple(a for assignment in found[:count] for a in self._divided([number(d) for d in assignment]))

    def shortest(self) -> Tuple[Tuple[str, ...], ...]:
        """The shortest pooled placement of the last look, divided."""
        return () if self._found is None else self._divided(self._found.fronts.shortest(self._found.graph))

    def _divided(self, devices: Sequence[int]) -> Tuple[Tuple[str, ...], ...]:
        """Placements with the pool's items up to a cut on the first core, the rest on the second."""
        frontier = self._arrays.frontier
        pool = [i for i, d in enumerate(devices) if d]
        cuts = sorted({pool[len(pool) * k // CUTS] for k in range(1, CUTS)} if pool else ())
        of = (frontier.devices[0], *frontier.problem.cores)
        return tuple(tuple(of[d and 1 + (i >= cut)] for i, d in enumerate(devices)) for cut in cuts)

    def guide(self, arrays: StateArrays, limit: float, deadline: Deadline) -> Optional[Guided]:
        """`arrays` with the pool's bounds for each state; None if the pool has no states, too many, or no time."""
        found = self._found
        if (
            found is None
            or found.limit < limit
            or (sum(map(len, found.graph.states)) > MOST_STATES and found.limit > limit * (1 + STEP))
        ):
            self._look(limit, deadline)
        return None if self._found is None else Guided(arrays, self._arrays, self._found.graph, self._found.fronts)

    def _look(self, limit: float, deadline: Deadline) -> Optional[float]:
        """The shortest pooled period below `limit`, infinite if there is none; None if there are too many states, or no time."""
        self._found = None
        if limit >= self._too_far:
            return None
        graph = StateGraph(self._arrays, self._prices, limit, MOST_STATES, deadline, whole=True)
        if graph.stopped or graph.dropped < limit:
            self._too_far = limit
            return None
        if graph.empty:
            return INFINITY
        fronts = LoadsAhead(graph, self._factors, limit)
        self._found = _Found(limit, graph, fronts)
        return fronts.root
