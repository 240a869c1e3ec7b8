"""The shortest period by one sweep over the items, with all partial placements that may still become the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.best import HANDED_OUT
from edgedla.placement.solvers.bounds.latency_limit import LatencyLimit
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.busiest.loads_ahead import LoadsAhead
from edgedla.placement.solvers.busiest.rows import (
    Rows,
    bounds_of,
    continued,
    first_row,
    merged_rows,
    row_maxima,
    traced_back,
    undominated,
)
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.states.state_graph import StateGraph


def beam(
    arrays: StateArrays,
    prices: Prices,
    factors: np.ndarray,
    limit: float,
    width: int,
    merge: bool,
    deadline: Deadline,
    all_loads: Optional[LatencyLimit] = None,
) -> Tuple[float, Tuple[Tuple[str, ...], ...]]:
    """(a lower bound of all placements below `limit`, the best complete placements).

    Args:
        prices: for weights already multiplied by the factors.
        factors, limit, deadline, all_loads: as for `sweep.sweep`.
        merge: merge rows beyond the width before dropping any, as `sweep.sweep` does; otherwise drop them.
    """
    frontier = arrays.frontier
    rows, states = first_row(len(frontier.devices)), arrays.start
    history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    lost = limit
    for i in range(len(frontier.allowed)):
        targets, edges, symmetric = arrays.edges(i, states)
        rows = continued(edges, rows, symmetric)
        rows = rows._replace(bound=arrays.bounds(i + 1, targets, rows))
        rows = rows.take(rows.bound < limit)
        rest = prices.rest(i + 1, targets)
        bound = np.maximum(rows.bound, prices.bounds(rows, rest))
        keep = bound < limit
        if all_loads is not None:
            keep &= all_loads.keeps(i + 1, targets, rows.loads[:, 0] + rows.pool, rows.state)
        rows = rows._replace(bound=bound).take(keep)
        kind = arrays.kinds(targets)
        rows = rows.take(np.lexsort((*rows.loads.T[::-1], kind[rows.state])))
        rows = rows.take(undominated(kind[rows.state], rows.loads, rows.pool))
        if merge and len(rows.bound) > width:
            rows = merged_rows(rows, width, limit)
            bound = np.maximum(arrays.bounds(i + 1, targets, rows), prices.bounds(rows, rest))
            rows = rows._replace(bound=bound)
        if len(rows.bound) > width:
            by_bound = np.argsort(rows.bound, kind="stable")
            lost = min(lost, float(rows.bound[by_bound[width]]))
            rows = rows.take(np.sort(by_bound[:width]))
        if not len(rows.bound):
            return lost, ()
        used, index = np.unique(rows.state, return_inverse=True)
        states, rows = targets[used], rows._replace(state=index)
        history.append((rows.parent.astype(np.int32), rows.device, rows.swapped))
        if deadline.passed:
            return min(lost, float(rows.bound.min())), ()
    period_us = float(np.maximum(rows.bound, row_maxima(rows.loads * factors)).min())
    best = np.argsort(row_maxima(rows.traced * factors), kind="stable")[:HANDED_OUT]
    return min(lost, period_us), tuple(traced_back(frontier.devices, history, int(row)) for row in best)


@dataclass(frozen=True)
class Swept:
    """The result of a sweep.

    Attributes:
        bound: no placement on these engines has a shorter period, if this is below the given limit.
        assignments: devices by item of the best complete placements, best first; () if none is below the limit.
        complete: no partial placement was merged or dropped for lack of room, so a wider sweep finds the same.
        stopped: the deadline came first.
    """

    bound: float
    assignments: Tuple[Tuple[str, ...], ...]
    complete: bool
    stopped: bool


def sweep(
    graph: StateGraph,
    factors: np.ndarray,
    limit: float,
    width: int,
    fronts: LoadsAhead,
    deadline: Deadline,
    all_loads: Optional[LatencyLimit] = None,
) -> Swept:
    """Item by item, continues every partial placement on every allowed device of the item.

    Of two in one state, one whose loads are all at most the other's dominates it. One whose bound reaches `limit` is
    dropped. If more than `width` remain, the half with the lowest bounds stays as it is, and the others are merged with
    their neighbours in a grid over the loads. A merged row has the lowest load of each device, a lower bound for every
    placement that it stands for, and traces the placement with the lowest bound. So the bound loosens only by what merging
    loses, and the best final row always leads to a complete placement.

    Args:
        factors: slowdown by device.
        limit: periods from here on are not worth searching.
        fronts: those of the graph.
        all_loads: the limit of the sum of loads, if there are latency bounds.
    """
    rows = first_row(graph.weights.shape[1])
    history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    lost, merged = graph.dropped, graph.dropped < np.inf
    for i, edges in enumerate(graph.edges):
        rows = continued(edges, rows, graph.symmetric[i + 1])
        rows = _bounded(rows, graph, fronts, i + 1, limit)
        if all_loads is not None:
            behind_us = rows.loads[:, 0] + rows.pool
            rows = rows.take(all_loads.keeps(i + 1, graph.states[i + 1], behind_us, rows.state))
        kind = graph.kinds(i + 1)
        rows = rows.take(np.lexsort((*rows.loads.T[::-1], kind[rows.state])))
        rows = rows.take(undominated(kind[rows.state], rows.loads, rows.pool))
        if len(rows.bound) > width:
            merged = True
            rows = _bounded(merged_rows(rows, width, limit), graph, fronts, i + 1, np.inf)
        if len(rows.bound) > width:
            by_bound = np.argsort(rows.bound, kind="stable")
            lost = min(lost, float(rows.bound[by_bound[width]]))
            rows = rows.take(np.sort(by_bound[:width]))
        if not len(rows.bound):
            return Swept(min(lost, limit), (), not merged, False)
        history.append((rows.parent.astype(np.int32), rows.device, rows.swapped))
        if deadline.passed:
            return Swept(min(lost, float(rows.bound.min()), limit), (), False, True)
    period_us = float(np.maximum(rows.bound, row_maxima(rows.loads * factors)).min())
    best = np.argsort(row_maxima(rows.traced * factors), kind="stable")[:HANDED_OUT]
    assignments = tuple(traced_back(graph.frontier.devices, history, int(row)) for row in best)
    return Swept(min(lost, period_us, limit), assignments, not merged, False)


def _bounded(rows: Rows, graph: StateGraph, fronts: LoadsAhead, i: int, limit: float) -> Rows:
    """The rows before item i whose bound is below the limit, each with it: the higher of the fronts' and the weights'."""
    bound = fronts.of_rows(i, rows)
    rows = rows._replace(bound=bound).take(bound < limit)
    bound = np.maximum(rows.bound, bounds_of(rows, graph.weights, graph.ahead[i]))
    return rows._replace(bound=bound).take(bound < limit)
