"""Two equal cores pooled into one that does the work of both: fewer states, and its period is a lower bound."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.guide import Guided
from edgedla.placement.solvers.streams.state_arrays import StateArrays
from edgedla.placement.solvers.streams.state_graph import StateGraph, prices_of
from edgedla.placement.solvers.streams.sweep import sweep

#: (rows, states) of the sweeps; the wider one runs only if the first does not prove the minimum.
SIZES: Tuple[Tuple[int, int], ...] = ((1_000, 400), (4_000, 2_000))

#: Weights of the GPU; the pool gets 1 minus that.
GPU_WEIGHTS = np.linspace(0.0, 1.0, 33)

#: (rows, states) of the sweep that splits the work of a pooled placement between the cores; how many pooled placements
#: are split; and how much longer than the pooled bound the results may be.
PARTING, PARTED, LONGER = (1_000, 2_000), 2, 1.02

#: The next pooled placement is split only if the last result is within this factor of the bound.
NEAR = 1.001

#: Weights for the split: the GPU's, then the first core's share of the rest.
PARTING_WEIGHTS = tuple((g, (1 - g) * c, (1 - g) * (1 - c)) for g in (0.0, 0.33) for c in (0.0, 0.3, 0.5, 0.7, 1.0))

#: Most states before one item in a guide.
GUIDING = 8_000

#: The first look goes beyond the bound by this share; after each look that finds nothing, twice as far.
STEP = 0.03

#: A period within this share of the bound counts as proven minimal.
SAME = 1e-9


class Pooled(NamedTuple):
    """The result of a look at the pool: no placement on both cores is shorter than `bound`; the best pooled placements."""

    bound: float
    assignments: Tuple[Tuple[str, ...], ...]


class PooledCores:
    """The placements on a set of engines with both cores, pooled into one core.

    A pooled placement costs at most what each placement on both cores costs that it stands for: a transition to both
    cores is paid once; every stretch of a path on the pool is at least one stretch on a core, so there are no more
    loadables; and the busier core has at least half of the work. Both cores have work, so the pool of a single model
    has at least two loadables.
    """

    def __init__(self, problem: Problem, engines: Sequence[str], factors: np.ndarray) -> None:
        """`factors`: slowdowns of the GPU and both cores."""
        frontier = Frontier(problem, tuple(e for e in engines if e != problem.cores[1]))
        self._factors = np.array([factors[0], factors[1:].min() / 2])
        self._arrays = StateArrays(frontier, False, paid=2 if len(problem.models) == 1 else 0)
        weights = np.stack([GPU_WEIGHTS, 1 - GPU_WEIGHTS], axis=1) * self._factors
        self._prices = prices_of(self._arrays, weights)

    def looks(self, least: float, limit: float, deadline: float) -> Iterator[Pooled]:
        """Looks further and then wider, up to the shortest pooled period below `limit`; `least` is a known lower bound."""
        bound, step = least, STEP
        for rows, states in SIZES:
            while bound < limit:
                reach = min(bound * (1 + step), limit)
                graph = StateGraph(self._arrays, self._prices, reach, states, deadline)
                if graph.stopped:
                    return
                if graph.empty:
                    bound = max(bound, min(graph.dropped, reach))
                    yield Pooled(bound, ())
                    if graph.dropped < reach:
                        break
                    step *= 2
                    continue
                swept = sweep(graph, self._factors, reach, rows, deadline)
                bound = max(bound, swept.bound)
                yield Pooled(bound, swept.assignments)
                if swept.stopped or swept.least <= bound * (1 + SAME):
                    return
                if swept.assignments or swept.bound < reach:
                    break
                step *= 2

    @property
    def guides(self) -> bool:
        """True if the pool can guide: only for a single model, because loadables of several have no common price."""
        return self._arrays.paid > 0

    def guide(self, arrays: StateArrays, limit: float, deadline: float) -> Optional[Guided]:
        """`arrays` with the pool's bounds for each state; None if the pool has no states, too many, or no time."""
        graph = StateGraph(self._arrays, self._prices, limit, GUIDING, deadline)
        if graph.stopped or graph.empty or graph.dropped < limit:
            return None
        return Guided(arrays, self._arrays, graph, self._factors, limit)


def parted(
    arrays: StateArrays, factors: np.ndarray, pooled: Pooled, limit: float, deadline: float
) -> Iterator[Tuple[Tuple[str, ...], ...]]:
    """Splits pooled placements one after the other: yields placements on both cores below `limit` with the same GPU items."""
    if not pooled.assignments:
        return
    frontier = arrays.frontier
    limit = min(limit, pooled.bound * LONGER)
    rows, states = PARTING
    prices = prices_of(arrays, np.array(PARTING_WEIGHTS) * factors)
    for assignment in pooled.assignments[:PARTED]:
        on_gpu = [d == frontier.devices[0] for d in assignment]
        allowed = [tuple(d for d in a if (d == 0) == gpu) for a, gpu in zip(frontier.allowed, on_gpu)]
        narrow = StateArrays(frontier, arrays.alike, allowed)
        graph = StateGraph(narrow, prices, limit, states, deadline)
        if graph.stopped:
            return
        if graph.empty:
            return
        swept = sweep(graph, factors, limit, rows, deadline, shared_out=1.0)
        yield swept.assignments
        if swept.least > pooled.bound * NEAR:
            return
