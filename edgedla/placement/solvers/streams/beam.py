"""Good placements soon: the most promising partial placements, item by item, the others left out."""

from __future__ import annotations

import time
from typing import List, Optional, Tuple

import numpy as np

from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.load_weights import Prices
from edgedla.placement.solvers.streams.rows import (
    HANDED_OUT,
    continued,
    first_row,
    merged_rows,
    traced_back,
    undominated,
)
from edgedla.placement.solvers.streams.state_graph import Known, edges_of


def beam(
    frontier: Frontier,
    known: Known,
    prices: Prices,
    factors: np.ndarray,
    limit: float,
    width: int,
    alike: bool,
    merge: bool,
    deadline: float,
    latency_us: Optional[float] = None,
) -> Tuple[float, Tuple[Tuple[str, ...], ...]]:
    """(a bound of all placements below `limit`, the best placements that came through).

    Args:
        prices: of weights that are multiplied by the factors.
        factors, limit, deadline, latency_us: as for `sweep.sweep`.
        alike: the two cores are.
        merge: rows that find no room are merged first, as `sweep.sweep` does; else left out.
    """
    rows, states = first_row(len(frontier.devices)), [frontier.start]
    history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    lost = limit
    for i in range(len(frontier.allowed)):
        targets, edges, symmetric = edges_of(frontier, known, i, states, alike)
        rows = continued(edges, rows, symmetric)
        rest = prices.rest(i + 1, targets)
        bound = prices.bounds(rows.loads, rows.state, rest)
        keep = bound < limit
        if latency_us is not None:
            keep &= rows.loads.sum(axis=1) <= latency_us * frontier.problem.rates[0] * (1 + 1e-9)
        rows = rows._replace(bound=bound).take(keep)
        rows = rows.take(np.lexsort((*rows.loads.T[::-1], rows.state)))
        rows = rows.take(undominated(rows.state, rows.loads))
        if merge and len(rows.bound) > width:
            rows = merged_rows(rows, width, limit)
            rows = rows._replace(bound=prices.bounds(rows.loads, rows.state, rest))
        if len(rows.bound) > width:
            by_bound = np.argsort(rows.bound, kind="stable")
            lost = min(lost, float(rows.bound[by_bound[width]]))
            rows = rows.take(np.sort(by_bound[:width]))
        if not len(rows.bound):
            return lost, ()
        used, index = np.unique(rows.state, return_inverse=True)
        states, rows = [targets[u] for u in used], rows._replace(state=index)
        history.append((rows.parent.astype(np.int32), rows.device, rows.swapped))
        if time.monotonic() > deadline:
            return min(lost, float(rows.bound.min())), ()
    period_us = float((rows.loads * factors).max(axis=1).min())
    best = np.argsort((rows.traced * factors).max(axis=1), kind="stable")[:HANDED_OUT]
    return min(lost, period_us), tuple(traced_back(frontier.devices, history, int(row)) for row in best)
