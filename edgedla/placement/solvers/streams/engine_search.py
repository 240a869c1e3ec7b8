"""The search on one set of engines: beams for good placements, then sweeps over the graph of its states."""

from __future__ import annotations

import time
from typing import Iterator, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.lower_bounds import alike
from edgedla.placement.solvers.streams.all_loads import AllLoads, most_of_all
from edgedla.placement.solvers.streams.beam import beam
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.guide import Guided
from edgedla.placement.solvers.streams.moves import Mover
from edgedla.placement.solvers.streams.pooled import PooledCores, parted
from edgedla.placement.solvers.streams.state_arrays import StateArrays
from edgedla.placement.solvers.streams.state_graph import StateGraph, prices_of
from edgedla.placement.solvers.streams.sweep import sweep
from edgedla.placement.solvers.streams.weights import best_prices, weights_around

#: Widths of the first beams, which look for good placements.
BEAMS: Tuple[int, ...] = (250, 700)

#: A guided look aims at the limit if that is within the factor NEAR of the bound. It never aims beyond the bound by more
#: than the share FAR, which doubles after each look that found nothing below its aim.
NEAR, FAR = 1.0035, 0.01

#: Widths of the first guided look, which shows which weights matter, and of the second; later ones double.
GUIDED = 250, 1_000

#: (width, states) of the one sweep tried between guided looks when the limit is that near.
SWEPT = 16_000, 1_000

#: Most items for which moves are tried: with more, a round takes longer than it saves.
MOVABLE = 150

#: Weights kept for the wider searches: the first searches have shown which weights matter.
WEIGHTS = 16

#: The graph of states is rebuilt once the limit falls below this share of the limit it was built for.
LOWER = 0.995


class EngineSearch:
    """What the search knows of the placements on one set of engines.

    Attributes:
        bound: no placement on these engines has a shorter period, unless that period is at least the last limit given.
        complete: a wider search would find nothing more.
        stopped: the deadline came first.
        deadline: on time.monotonic's clock.
        guided: looks are guided by the pooled cores. What they leave unproven, other solvers do not prove either.
    """

    def __init__(
        self, problem: Problem, goal: Goal, engines: Tuple[str, ...], floor: float, weights: np.ndarray, deadline: float
    ) -> None:
        """`floor` is a lower bound of the period; `weights` gave it, and the search for better weights starts there."""
        self.engines, self.bound, self.complete, self.stopped = engines, floor, False, False
        self._frontier = Frontier(problem, engines)
        self._factors = np.array([problem.factor(frozenset(engines), d) for d in self._frontier.devices])
        reached, self._prices = best_prices(self._frontier, self._factors, weights, deadline)
        self.bound = max(self.bound, reached)
        self._weights = np.unique(self._prices.weights, axis=0)
        self._mover = Mover(self._frontier, self._factors)
        two_alike = len(self._frontier.devices) == 3 and alike(problem)
        self._arrays = StateArrays(self._frontier, two_alike, merged=True)
        self._pool = PooledCores(problem, engines, self._factors) if self._arrays.alike else None
        self.guided = self._pool is not None and self._pool.guides
        self._guide: Optional[Guided] = None
        self._guided, self._width, self._all = INFINITY, GUIDED[0], False
        self._far, self._swept = FAR, INFINITY
        most_us = most_of_all(problem, goal)
        self._all_loads = None if most_us is None else AllLoads(self._frontier, most_us)
        if self._all_loads and time.monotonic() < deadline:
            self.bound = max(self.bound, self._all_loads.bound(self._factors))
        self.deadline = deadline
        self._graph: Optional[StateGraph] = None
        self._limit = INFINITY
        self._kept: Optional[np.ndarray] = None

    def first_looks(self, limit: float) -> Iterator[Tuple[Tuple[str, ...], ...]]:
        """Yields good placements: from both cores pooled, then from each beam. Raises `bound`."""
        if self._pool:
            for pooled in self._pool.looks(self.bound, limit, self.deadline):
                self.bound = max(self.bound, pooled.bound)
                yield ()
                yield from parted(self._arrays, self._factors, pooled, limit, self.deadline)
            self.stopped = time.monotonic() > self.deadline
            if self.guided:
                return
        for width in BEAMS:
            yield self._beam(limit, width, False)

    def shorter(self, devices: Sequence[str], rounds: int) -> Iterator[Tuple[str, ...]]:
        """Ever shorter placements, made from one by moves; none if it uses other engines or has too many items."""
        if len(devices) <= MOVABLE and set(devices) <= set(self._frontier.devices):
            yield from self._mover.improved(devices, rounds, self.deadline)

    def look(self, limit: float, width: int, most_states: int) -> Sequence[Tuple[str, ...]]:
        """The best placements of a sweep of this width, empty if it finds none below `limit`. Raises `bound`.

        If the states do not fit and a sweep over those that fit finds nothing, a beam runs instead.
        """
        if self.guided:
            assignments = self._guided_look(limit, width)
            if self.guided or self.stopped:
                return assignments
        assignments = self._sweep(limit, width, most_states)
        graph = self._graph
        if assignments or self.bound >= limit or self.stopped or self.complete:
            return assignments
        if graph is not None and graph.dropped >= self.bound:
            return ()
        return self._beam(limit, width, True)

    def _sweep(self, limit: float, width: int, most_states: int) -> Sequence[Tuple[str, ...]]:
        """The best placements of a sweep over the states; empty if the states do not fit."""
        self._look_through_states(limit, most_states)
        graph = self._graph
        if graph is None or self.bound >= limit or self.complete or self.stopped:
            return ()
        swept = sweep(graph, self._factors, limit, width, self.deadline, self._all_loads, self._kept)
        if self._kept is None:
            self._kept = np.sort(np.argsort(-swept.used, kind="stable")[:WEIGHTS])
        self.bound = max(self.bound, swept.bound)
        self.complete, self.stopped = swept.complete, swept.stopped
        return swept.assignments

    def _guided_look(self, limit: float, width: int) -> Sequence[Tuple[str, ...]]:
        """Beams up to this width with a guide; each aims at `_reach(limit)`."""
        while self.bound < limit and not self.stopped and self._width <= max(width, GUIDED[1]):
            if limit < min(self.bound * NEAR, self._swept):
                # With so small a gap all states may fit, and unlike the pool's their bounds tell the cores apart.
                self._swept = limit
                assignments = self._sweep(limit, *SWEPT)
                if assignments or self.bound >= limit or self.stopped:
                    return assignments
            reach = self._reach(limit)
            if self._pool and reach != self._guided:
                self._guided, self._guide = reach, self._pool.guide(self._arrays, reach, self.deadline)
            if self._guide is None:
                self.stopped = time.monotonic() > self.deadline
                self.guided = False
                return ()
            assignments = self._beam(reach, self._width, True, self._guide)
            self._all = self.bound >= reach
            if self._all:
                self._far *= 2
            else:
                self._width = max(2 * self._width, GUIDED[1])
            if assignments:
                return assignments
        return ()

    def _reach(self, limit: float) -> float:
        """The period below which the next look searches.

        The limit; halfway between the bound and the limit if the last look failed; and never far beyond the bound.
        """
        middle = limit if self._all or limit < self.bound * NEAR else (self.bound + limit) / 2
        return min(middle, self.bound * (1 + self._far))

    def _beam(
        self, limit: float, width: int, merge: bool, guide: Optional[Guided] = None
    ) -> Tuple[Tuple[str, ...], ...]:
        bound, assignments = beam(
            guide or self._arrays, self._prices, self._factors, limit, width, merge, self.deadline, self._all_loads
        )
        self._prices = self._prices.most_used(WEIGHTS)
        self.bound = max(self.bound, bound)
        self.stopped = time.monotonic() > self.deadline
        return assignments

    def _look_through_states(self, limit: float, most_states: int) -> None:
        """Builds the graph of states. Rebuilds it if the limit fell, or if more states fit than before."""
        graph = self._graph
        if limit > self._limit * LOWER and (graph is None or not self.bound <= graph.dropped < INFINITY):
            return
        self._limit, self._graph, self._kept = limit, None, None
        for _ in range(2):
            prices = prices_of(self._arrays, self._weights)
            graph = StateGraph(self._arrays, prices, limit, most_states, self.deadline, self._all_loads)
            if graph.stopped:
                self.stopped = True
                return
            self.bound = max(self.bound, min(float(graph.root.max()), limit, graph.dropped))
            if graph.empty:
                self.complete = graph.dropped == INFINITY
                return
            self._graph = graph
            # From now on, use weights around the best ones.
            best = graph.weights[int(graph.root.argmax())] / self._factors
            self._weights = np.unique(np.round(weights_around(best / best.sum()) * self._factors, 9), axis=0)
            if graph.dropped < INFINITY:
                return
