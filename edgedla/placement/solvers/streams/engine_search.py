"""The search on one set of engines: beams for good placements, then sweeps over the graph of its states."""

from __future__ import annotations

import time
from typing import Iterator, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.lower_bounds import alike
from edgedla.placement.solvers.streams.beam import beam
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.moves import Mover
from edgedla.placement.solvers.streams.state_graph import Known, StateGraph
from edgedla.placement.solvers.streams.sweep import sweep
from edgedla.placement.solvers.streams.weights import best_prices, weights_around

#: Widths of the beams that look for good placements to begin with.
BEAMS: Tuple[int, ...] = (250, 700)

#: Items up to which moves are tried: of more, rounds take more time than they save.
MOVABLE = 150

#: Weights that the wider searches keep: the first ones have shown which matter.
WEIGHTS = 16

#: Share of the last limit below which the states are looked through again.
LOWER = 0.995


class EngineSearch:
    """What is known of the placements on one set of engines.

    Attributes:
        bound: no placement on these engines has a shorter period; one that reaches the limit last given may be taken for it.
        complete: a wider search finds nothing more.
        stopped: the deadline came first.
        deadline: on time.monotonic's clock.
    """

    def __init__(
        self, problem: Problem, goal: Goal, engines: Tuple[str, ...], floor: float, weights: np.ndarray, deadline: float
    ) -> None:
        """`floor` is a bound, and `weights` are those that give it: where to look first."""
        self.engines, self.bound, self.complete, self.stopped = engines, floor, False, False
        self._frontier = Frontier(problem, engines)
        self._factors = np.array([problem.factor(frozenset(engines), d) for d in self._frontier.devices])
        reached, self._prices = best_prices(self._frontier, self._factors, weights, deadline)
        self.bound = max(self.bound, reached)
        self._weights = np.unique(self._prices.weights, axis=0)
        self._mover = Mover(self._frontier, self._factors)
        self._known: Known = [{} for _ in problem.items]
        self._alike = len(self._frontier.devices) == 3 and alike(problem)
        self._latency_us = goal.bound_of(0) if len(problem.models) == 1 else None
        self.deadline = deadline
        self._graph: Optional[StateGraph] = None
        self._limit = INFINITY
        self._kept: Optional[np.ndarray] = None

    def first_looks(self, limit: float) -> Iterator[Tuple[Tuple[str, ...], ...]]:
        """Good placements, beam by beam."""
        for width in BEAMS:
            yield self._beam(limit, width, False)

    def shorter(self, devices: Sequence[str], rounds: int) -> Iterator[Tuple[str, ...]]:
        """Placements that moves make of one, shorter and shorter; none of one that uses other engines."""
        if len(devices) <= MOVABLE and set(devices) <= set(self._frontier.devices):
            yield from self._mover.improved(devices, rounds, self.deadline)

    def look(self, limit: float, width: int, most_states: int) -> Sequence[Tuple[str, ...]]:
        """The best placements of a sweep of this width, none for want of any below `limit`; raises `bound`.

        Where the states do not fit and the sweep over those that do meets nothing, a beam does it.
        """
        self._look_through_states(limit, most_states)
        graph = self._graph
        if self.bound >= limit or self.complete or self.stopped:
            return ()
        if graph is None:
            return self._beam(limit, width, True)
        swept = sweep(graph, self._factors, limit, width, self.deadline, self._latency_us, self._kept)
        if self._kept is None:
            self._kept = np.sort(np.argsort(-swept.used, kind="stable")[:WEIGHTS])
        self.bound = max(self.bound, swept.bound)
        self.complete, self.stopped = swept.complete, swept.stopped
        if swept.assignments or self.stopped or self.complete or graph.dropped >= self.bound:
            return swept.assignments
        return self._beam(limit, width, True)

    def _beam(self, limit: float, width: int, merge: bool) -> Tuple[Tuple[str, ...], ...]:
        bound, assignments = beam(
            self._frontier, self._known, self._prices, self._factors, limit, width, self._alike, merge, self.deadline,
            self._latency_us,
        )  # fmt: skip
        self._prices = self._prices.most_used(WEIGHTS)
        self.bound = max(self.bound, bound)
        self.stopped = time.monotonic() > self.deadline
        return assignments

    def _look_through_states(self, limit: float, most_states: int) -> None:
        """Makes the graph of states; again, where the limit fell or where it has room for more of them."""
        graph = self._graph
        if limit > self._limit * LOWER and (graph is None or not self.bound <= graph.dropped < INFINITY):
            return
        self._limit, self._graph, self._kept = limit, None, None
        for _ in range(2):
            graph = StateGraph(
                self._frontier, self._known, self._weights, limit, self._alike, most_states, self.deadline
            )
            if graph.stopped:
                self.stopped = True
                return
            self.bound = max(self.bound, min(float(graph.root.max()), limit, graph.dropped))
            if graph.empty:
                self.complete = graph.dropped == INFINITY
                return
            self._graph = graph
            # From now on with weights around the best.
            best = graph.weights[int(graph.root.argmax())] / self._factors
            self._weights = np.unique(np.round(weights_around(best / best.sum()) * self._factors, 9), axis=0)
            if graph.dropped < INFINITY:
                return
