"""Good placements early: a beam search, item by item, that keeps only the most promising partial placements."""

from __future__ import annotations

from typing import List, Optional, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.streams.all_loads import AllLoads
from edgedla.placement.solvers.streams.prices.load_weights import Prices
from edgedla.placement.solvers.streams.rows import (
    HANDED_OUT,
    continued,
    first_row,
    merged_rows,
    row_maxima,
    traced_back,
    undominated,
)
from edgedla.placement.solvers.streams.state_arrays import StateArrays


def beam(
    arrays: StateArrays,
    prices: Prices,
    factors: np.ndarray,
    limit: float,
    width: int,
    merge: bool,
    deadline: Deadline,
    all_loads: Optional[AllLoads] = None,
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
        rest = prices.rest_of_rows(i + 1, targets)
        bound = np.maximum(rows.bound, prices.bounds(rows, rest))
        keep = bound < limit
        if all_loads is not None:
            keep &= all_loads.keeps(i + 1, targets, rows)
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
