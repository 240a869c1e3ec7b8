"""The search on one set of engines: all states with fronts of what is left, or beams where there are too many of them."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import HANDED_OUT
from edgedla.placement.solvers.bounds.fractional import GRID, alike
from edgedla.placement.solvers.bounds.latency_limit import LatencyLimit, most_in_all
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import TELLING, WIDE, best_prices, stretched
from edgedla.placement.solvers.busiest.loads_ahead import LoadsAhead
from edgedla.placement.solvers.busiest.pooled_cores import LEAST_STEP, MOST_STEP, STEP, Guided, PooledCores
from edgedla.placement.solvers.busiest.sweep import beam, sweep
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.states.state_graph import StateGraph, prices_of

#: Widths of the first two beams: one shows which weights matter, one finds good placements. Later guided ones double.
BEAMS = 250, 1_000

#: Widths of the narrow guided beams, which come first: they take tenths of a second and mostly end within 3 % of the bound.
NARROW: Tuple[int, ...] = (16, 150)


#: Seconds of the first beam after a limit that is shorter than the preparation: it takes 0.1 s on 250 items.
START_S = 0.25


class EngineSearch:
    """What the search knows of the placements on one set of engines.

    Attributes:
        bound: no placement on these engines has a shorter period, unless that period is at least the last limit given.
        complete: a wider search would find nothing more.
        stopped: the deadline came first.
        guided: looks are guided by the pooled cores. What they leave unproven, other solvers do not prove either.
    """

    def __init__(
        self, problem: Problem, goal: Goal, engines: Tuple[str, ...], floor: float, weights: np.ndarray, deadline: Deadline
    ) -> None:
        """`floor` is a lower bound of the period; `weights` gave it, and the search for better weights starts there."""
        self.engines, self.bound, self.complete, self.stopped = engines, floor, False, False
        self._frontier = Frontier(problem, engines)
        self._factors = np.array([problem.factor(frozenset(engines), d) for d in self._frontier.devices])
        self._start, self._refined, self._widened = weights, False, False
        self._prices = Prices.both_ways(self._frontier, stretched(weights, WIDE[1:-1]) * self._factors)
        self.bound = max(self.bound, float(self._prices.root.max()))
        self._guide: Optional[Guided] = None
        self._guided, self._width, self._all = INFINITY, BEAMS[0], False
        self._far, self._too_many = STEP, (0, INFINITY)
        most_us = most_in_all(problem, goal)
        self._all_loads = None if most_us is None else LatencyLimit(self._frontier, most_us)
        self.deadline = deadline

    def prepare(self) -> None:
        """Before any look: what a set of engines whose bound is too high does without."""
        problem = self._frontier.problem
        two_alike = len(self._frontier.devices) == 3 and alike(problem)
        self._arrays = StateArrays(self._frontier, two_alike, merged=True)
        self._pool: Optional[PooledCores] = None
        if two_alike:
            best = self._prices.weights[int(self._prices.root.argmax())] / self._factors
            # Weights around the best and even ones of the cores: those for states, which know what depends on several items, are not
            # those for prices.
            even = np.array([(gpu, (1 - gpu) / 2, (1 - gpu) / 2) for gpu in np.linspace(0.0, 1.0, GRID[3] + 1)])
            weights = np.concatenate([stretched(best, WIDE[1:-1]), np.eye(3), even]) * self._factors
            self._graph_prices = prices_of(self._arrays, weights)
            self._pool = PooledCores(problem, self.engines, self._factors, self._graph_prices.weights)
        # Only where loadables of all models have one price.
        self.guided = self._pool is not None and len(set(problem.rates)) == 1

    def _refine(self) -> None:
        """Raises `bound` by a climb to better weights, once: dearer than what the constructor does."""
        if self._refined:
            return
        self._refined = True
        reached, self._prices = best_prices(self._frontier, self._factors, self._start, self.deadline)
        self.bound = max(self.bound, reached)
        if self._pool is None:
            self._graph_prices = prices_of(self._arrays, np.unique(self._prices.weights, axis=0))

    def begun(self) -> Tuple[Tuple[str, ...], ...]:
        """Good placements before any look, from the narrowest beam; however late it is, some tenths of a second are left for them."""
        late = self.deadline.later(START_S)
        return self._pool.beam(NARROW[0], 1, late) if self._pool else self._beam(INFINITY, NARROW[0], False)

    def first_looks(self, limit: float) -> Iterator[Tuple[Tuple[str, ...], ...]]:
        """Raises `bound` by both cores pooled, and yields good placements: those of the pool, or from narrow beams."""
        if self._pool:
            for bound in self._pool.bounds(self.bound, limit, self.deadline):
                known, self.bound = self.bound, max(self.bound, bound)
                yield () if bound > known else self._wide_beam()
            self.stopped = self.deadline.passed
            yield self._pool.shortest()
            if self.guided:
                for width in NARROW:
                    if self.stopped or not self._guide_to(min(limit, self.bound * (1 + MOST_STEP))):
                        yield self._wide_beam()
                        return
                    assignments = self._beam(self._guided, width, False, self._guide)
                    if assignments:
                        yield assignments
                        return
                return
        self._refine()
        yield ()
        for width in BEAMS:
            yield self._beam(limit, width, False)

    def _wide_beam(self) -> Tuple[Tuple[str, ...], ...]:
        """What a wide beam over the pool finds, once: where the pool has too many states, looks and guided beams find little."""
        known, self._widened = self._widened, True
        return () if known or not self._pool else self._pool.beam(BEAMS[0], HANDED_OUT, self.deadline.to_prepare)

    def look(self, limit: float, width: int, most_states: int) -> Sequence[Tuple[str, ...]]:
        """The best placements of a sweep of this width over the states, empty if it finds none below `limit`. Raises `bound`.

        If there are more states than `most_states` before an item, and a sweep over the others finds nothing, a beam runs.
        """
        self._refine()
        assignments = self._sweep(limit, width, most_states)
        if assignments is not None or self.stopped or self.bound >= limit:
            return assignments or ()
        return self._guided_beam(limit, width) if self.guided else self._beam(limit, width, True)

    def _sweep(self, limit: float, width: int, most_states: int) -> Optional[Sequence[Tuple[str, ...]]]:
        """The best placements of a sweep over the states; None if it finds none and too many states were left out."""
        while 0 < self.bound < limit:
            reach = min(limit, self.bound * (1 + self._far))
            if most_states <= self._too_many[0] and reach >= self._too_many[1]:
                return None
            if self.guided and not self._guide_to(reach):
                if self.stopped or self._far < LEAST_STEP:
                    return None
                self._far /= 2
                continue
            graph = StateGraph(
                self._guide or self._arrays, self._graph_prices, reach, most_states, self.deadline, self._all_loads
            )
            if graph.stopped:
                self.stopped = True
                return ()
            assignments: Sequence[Tuple[str, ...]] = ()
            if graph.empty:
                self.bound, self.complete = max(self.bound, min(graph.dropped, reach)), graph.dropped == INFINITY
            else:
                assignments = self._swept(graph, reach, width)
            self.complete = self.complete and (len(assignments) > 0 or reach >= limit)
            if assignments or self.stopped:
                return assignments
            if graph.dropped < reach:
                self._too_many = most_states, reach
                return None
            if self.bound < reach:
                return ()
            self._far *= 2
        return ()

    def _swept(self, graph: StateGraph, reach: float, width: int) -> Sequence[Tuple[str, ...]]:
        """The best placements below `reach`. Raises `bound`."""
        fronts = LoadsAhead(graph, self._factors, reach)
        swept = sweep(graph, self._factors, reach, width, fronts, self.deadline, self._all_loads)
        self.bound = max(self.bound, swept.bound, min(fronts.root, graph.dropped, reach))
        self.complete, self.stopped = swept.complete, swept.stopped
        return swept.assignments

    def _guide_to(self, reach: float) -> bool:
        """Whether there is a guide for placements below `reach`."""
        if self._pool and reach != self._guided:
            self._guided, self._guide = reach, self._pool.guide(self._arrays, reach, self.deadline)
            self.stopped = self.deadline.passed
        return self._guide is not None

    def _guided_beam(self, limit: float, width: int) -> Sequence[Tuple[str, ...]]:
        """Beams up to this width with a guide; each aims at `_reach(limit)`."""
        while self.bound < limit and not self.stopped and self._width <= max(width, BEAMS[1]):
            reach = self._reach(limit)
            if not self._guide_to(reach):
                self.guided = False
                return ()
            assignments = self._beam(reach, self._width, True, self._guide)
            self._all = self.bound >= reach
            if self._all:
                self._far *= 2
            else:
                self._width = max(2 * self._width, BEAMS[1])
            if assignments:
                return assignments
        return ()

    def _reach(self, limit: float) -> float:
        """The period below which the next look searches.

        The limit; halfway between the bound and the limit if the last look failed; and never far beyond the bound.
        """
        middle = limit if self._all or limit < self.bound * (1 + LEAST_STEP) else (self.bound + limit) / 2
        return min(middle, self.bound * (1 + self._far))

    def _beam(self, limit: float, width: int, merge: bool, guide: Optional[Guided] = None) -> Tuple[Tuple[str, ...], ...]:
        bound, assignments = beam(
            guide or self._arrays, self._prices, self._factors, limit, width, merge, self.deadline, self._all_loads
        )
        self._prices = self._prices.most_used(TELLING)
        self.bound = max(self.bound, bound)
        self.stopped = self.deadline.passed
        return assignments
