"""Two cores that are alike, taken for one that does the work of both: fewer states, and no period is below its own."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.guide import Guided
from edgedla.placement.solvers.streams.state_arrays import StateArrays
from edgedla.placement.solvers.streams.state_graph import StateGraph, prices_of
from edgedla.placement.solvers.streams.sweep import sweep

#: (rows, states) of the sweeps, until one has the least period.
SIZES: Tuple[Tuple[int, int], ...] = ((1_000, 400), (4_000, 2_000))

#: Weights of the GPU; the pool has the rest to 1.
GPU_WEIGHTS = np.linspace(0.0, 1.0, 33)

#: (rows, states) of the sweep that parts the work of one pooled placement among the cores, how many are parted, and how
#: much longer than the pooled one what comes of it may be.
PARTING, PARTED, LONGER = (1_000, 2_000), 2, 1.02

#: The next one is parted while what came of the last is no longer than the bound by more than this factor.
NEAR = 1.001

#: Weights of the parting: of the GPU, and shares of the rest of one core.
PARTING_WEIGHTS = tuple((g, (1 - g) * c, (1 - g) * (1 - c)) for g in (0.0, 0.33) for c in (0.0, 0.3, 0.5, 0.7, 1.0))

#: States before one item that a guide may have.
GUIDING = 8_000

#: By what share of the bound the first look goes beyond it; after looks that find nothing there, twice as far.
STEP = 0.03

#: A period that is longer than the bound by less than this share is the least.
SAME = 1e-9


class Pooled(NamedTuple):
    """What a look at the pool found: no placement on both cores is shorter than `bound`; the best pooled placements."""

    bound: float
    assignments: Tuple[Tuple[str, ...], ...]


class PooledCores:
    """The placements on a set of engines with both cores, these taken for one.

    Of a placement on both cores everything is at least what it is here. A transition to both is paid once here; of a path,
    a stretch here has at least one stretch on a core, so that there are no more loadables; and the busier core has at least
    half of their work. Both cores have work, so of one model, the pool has two loadables at least.
    """

    def __init__(self, problem: Problem, engines: Sequence[str], factors: np.ndarray) -> None:
        """`factors`: slowdown by device, of the GPU and both cores."""
        frontier = Frontier(problem, tuple(e for e in engines if e != problem.cores[1]))
        self._factors = np.array([factors[0], factors[1:].min() / 2])
        self._arrays = StateArrays(frontier, False, paid=2 if len(problem.models) == 1 else 0)
        weights = np.stack([GPU_WEIGHTS, 1 - GPU_WEIGHTS], axis=1) * self._factors
        self._prices = prices_of(self._arrays, weights)

    def looks(self, least: float, limit: float, deadline: float) -> Iterator[Pooled]:
        """Higher and higher, then wider and wider, up to the least pooled period below `limit`; none is below `least`."""
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
        """Guides are made for one model only: the loadables of several have no common price."""
        return self._arrays.paid > 0

    def guide(self, arrays: StateArrays, limit: float, deadline: float) -> Optional[Guided]:
        """The states of `arrays` with what the pool says of them; None where it has none, too many or no time."""
        graph = StateGraph(self._arrays, self._prices, limit, GUIDING, deadline)
        if graph.stopped or graph.empty or graph.dropped < limit:
            return None
        return Guided(arrays, self._arrays, graph, self._factors, limit)


def parted(
    arrays: StateArrays, factors: np.ndarray, pooled: Pooled, limit: float, deadline: float
) -> Iterator[Tuple[Tuple[str, ...], ...]]:
    """Placements on both cores below `limit`, for one pooled placement after the other, with what that has on the GPU there."""
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
