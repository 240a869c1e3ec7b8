"""Two equal cores pooled into one that does the work of both: fewer states, and its period is a lower bound."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.fronts import Fronts, in_pairs
from edgedla.placement.solvers.streams.guide import Guided
from edgedla.placement.solvers.streams.prices.load_weights import Prices
from edgedla.placement.solvers.streams.state_arrays import StateArrays
from edgedla.placement.solvers.streams.state_graph import StateGraph

#: Most states of the pool before one item.
MOST_STATES = 2_000

#: A guide takes those found for a longer limit if there are no more of them than this, or the limit is about the same.
FEW = 2_000

#: The first look goes beyond the bound by this share; after each look that finds nothing, FARTHER by this factor; after one
#: with too many states, half as far, down to LEAST_STEP.
STEP, FARTHER, LEAST_STEP = 0.02, 2.0, 0.001


class _Found(NamedTuple):
    """All states of the pool on placements below the limit, and their fronts."""

    limit: float
    graph: StateGraph
    fronts: Fronts

    @property
    def states(self) -> int:
        return sum(len(states) for states in self.graph.states)


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
        self._prices = Prices(frontier, in_pairs(weights), np.ones(len(weights), bool))
        self._found: Optional[_Found] = None

    def bounds(self, least: float, limit: float, deadline: Deadline) -> Iterator[float]:
        """Ever higher lower bounds, up to the shortest pooled period below `limit`; `least` is a known one."""
        bound, step = least, STEP
        while 0 < bound < limit and step >= LEAST_STEP:
            reach = min(bound * (1 + step), limit)
            period_us = self._look(reach, deadline)
            if period_us is None:
                if deadline.passed:
                    return
                step /= 2
                continue
            bound = min(period_us, reach)
            yield bound
            if period_us < reach:
                return
            step *= FARTHER

    @property
    def guides(self) -> bool:
        """True if the pool can guide: only where loadables of all models have one price."""
        return len(set(self._arrays.frontier.problem.rates)) == 1

    def guide(self, arrays: StateArrays, limit: float, deadline: Deadline) -> Optional[Guided]:
        """`arrays` with the pool's bounds for each state; None if the pool has no states, too many, or no time."""
        found = self._found
        if found is None or found.limit < limit or (found.states > FEW and found.limit > limit * (1 + STEP)):
            self._look(limit, deadline)
        if self._found is None:
            return None
        return Guided(arrays, self._arrays, self._found.graph, self._found.fronts)

    def _look(self, limit: float, deadline: Deadline) -> Optional[float]:
        """The shortest pooled period below `limit`, infinite if there is none; None if there are too many states, or no time."""
        graph = StateGraph(self._arrays, self._prices, limit, MOST_STATES, deadline, whole=True)
        self._found = None
        if graph.stopped or graph.dropped < limit:
            return None
        if graph.empty:
            return INFINITY
        fronts = Fronts(graph, self._factors, limit)
        self._found = _Found(limit, graph, fronts)
        return fronts.root
