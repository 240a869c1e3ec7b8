"""The minimum segment times of a model: all placements that may still matter, without dominated ones."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.busiest.rows import ranges
from edgedla.placement.solvers.two_models.model_graph import Graph

#: Rows compared pairwise at once.
BLOCK = 128

BEFORE = np.triu(np.ones((BLOCK, BLOCK), bool), 1)

#: Side of the boxes in which rows are merged, as a share of the limit: the first, its growth factor, and the maximum.
FINEST_BOX, WIDER, WIDEST_BOX = 2.0**-15, 1.6, 0.3


class LoadFront(NamedTuple):
    """The times of a model's placements. A merged row has, per column, the minimum of the placements it stands for.

    Attributes:
        loads: (rows, columns).
        choices: (rows, items): a placement of each row.
        bound: per row, a lower bound of every pair that includes it.
        loadables: per row, its number of loadables, if counted.
        lost: a lower bound of what was dropped for lack of room; infinite if nothing was.
        merged: a row may stand for several placements, or some were dropped.
        stopped: the deadline came first; then there are no rows.
    """

    loads: np.ndarray
    choices: np.ndarray
    bound: np.ndarray
    loadables: np.ndarray
    lost: float
    merged: bool
    stopped: bool

    def rows(self, which: np.ndarray) -> LoadFront:
        """The rows at these indices."""
        return self._replace(
            loads=self.loads[which], choices=self.choices[which], bound=self.bound[which],
            loadables=self.loadables[which],
        )  # fmt: skip


def front(
    graph: Graph,
    limit: float,
    width: int,
    deadline: Deadline,
    columns: Optional[int] = None,
    counted: int = -1,
) -> LoadFront:
    """The rows of a graph below `limit`; if more than `width`, half of them are merged with their neighbours.

    Args:
        columns: how many of the columns are loads; by default all.
        counted: the column after the loads counts loadables; up to this number, rows of different counts are kept apart.
    """
    columns = graph.weights.shape[1] if columns is None else columns
    none = LoadFront(
        np.zeros((0, columns)), np.zeros((0, len(graph.ways)), np.int8), np.zeros(0), np.zeros(0, int), graph.dropped,
        False, False,
    )  # fmt: skip
    if graph.empty:
        return none
    loads: np.ndarray = np.zeros((1, columns))
    state: np.ndarray = np.zeros(1, int)
    loadables: np.ndarray = np.zeros(1, int)
    bound: np.ndarray = np.zeros(1)
    history: List[Tuple[np.ndarray, np.ndarray]] = []
    lost, merged, side = graph.dropped, False, limit * FINEST_BOX
    for i, ways in enumerate(graph.ways):
        counts = np.diff(ways.first)[state]
        parent = np.repeat(np.arange(len(state)), counts)
        way = ranges(ways.first[state], counts)
        loads, state, choice = loads[parent] + ways.load[way, :columns], ways.target[way], ways.choice[way]
        loadables = loadables[parent]
        if counted >= 0:
            loadables = np.minimum(loadables + ways.load[way, columns].astype(int), counted + 1)
        bound = _bounds(loads, state, graph, i + 1)
        group = state * (counted + 2) + loadables
        keep = np.flatnonzero(bound < limit)
        # Two sort columns are enough: among rows equal in these, a dominated one may remain.
        keep = keep[np.lexsort((*loads[keep, :2].T[::-1], group[keep]))]
        keep = keep[_undominated(group[keep], loads[keep])]
        if len(keep) > width:
            merged = True
            which, merged_loads, side = _merged(
                loads[keep], group[keep], bound[keep], width, limit, max(side / WIDER**2, limit * FINEST_BOX)
            )
            keep = keep[which]
            loads[keep] = merged_loads
            bound[keep] = _bounds(merged_loads, state[keep], graph, i + 1)
            if len(keep) > width:
                keep = keep[np.argsort(bound[keep], kind="stable")]
                lost = min(lost, float(bound[keep[width]]))
                keep = keep[:width]
        loads, state, loadables, bound = loads[keep], state[keep], loadables[keep], bound[keep]
        history.append((parent[keep], choice[keep]))
        if not len(state) or deadline.passed:
            return none._replace(lost=lost, merged=merged, stopped=bool(len(state)))
    row, choices = np.arange(len(state)), np.zeros((len(state), len(graph.ways)), graph.ways[0].choice.dtype)
    for i in reversed(range(len(history))):
        parent, choice = history[i]
        choices[:, i], row = choice[row], parent[row]
    return LoadFront(loads, choices, bound, loadables, lost, merged, False)


def _bounds(loads: np.ndarray, state: np.ndarray, graph: Graph, position: int) -> np.ndarray:
    best = np.empty(len(state))
    weights, ahead = graph.weights[:, : loads.shape[1]].T, graph.ahead[position]
    for start in range(0, len(best), 16384):
        part = slice(start, start + 16384)
        best[part] = graph.bounds(loads[part] @ weights + ahead[state[part]])
    return best


def _undominated(state: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """Which rows no other row of the same state dominates: exact for up to two columns, else as near neighbours show.

    Rows are sorted by state and the first two loads.
    """
    keep = np.ones(len(state), bool)
    if loads.shape[1] <= 2:
        # The running minimum of the last load; each state's rows are shifted below those of the state before.
        last = loads[:, 1] if loads.shape[1] == 2 else np.zeros(len(state))
        lowered = last - state * (2.0 * last.max(initial=0.0) + 1.0)
        keep[1:] = lowered[1:] < np.minimum.accumulate(lowered)[:-1]
        return keep
    for shift in (0, BLOCK // 2):
        left = np.flatnonzero(keep)
        for start in range(shift, len(left), BLOCK):
            part = left[start : start + BLOCK]
            under = (state[part][:, None] == state[part]) & BEFORE[: len(part), : len(part)]
            # Sorted by the first load, so an earlier row is never higher in that.
            for column in loads[part, 1:].T:
                under &= column[:, None] <= column + 1e-9
            keep[part] = ~under.any(axis=0)
    return keep


def _merged(
    loads: np.ndarray, state: np.ndarray, bound: np.ndarray, width: int, limit: float, side: float
) -> Tuple[np.ndarray, np.ndarray, float]:
    """(which rows stay, their loads, the boxes' side): the half with the lowest bounds, and one row per box of the others.

    Args:
        side: of the first boxes.
    """
    order = np.argsort(bound, kind="stable")
    exact, others = order[: width // 2], order[width // 2 :]
    multipliers = np.random.default_rng(0).integers(1 << 62, size=loads.shape[1] + 1) * 2 + 1
    other_loads, other_states = loads[others], state[others]
    while True:
        boxes = np.floor(other_loads / side).astype(np.int64)
        # One number per box makes sorting fast; boxes that share a number are told apart below.
        by_box = np.argsort(boxes @ multipliers[1:] + other_states * multipliers[0], kind="stable")
        boxes, states = boxes[by_box], other_states[by_box]
        same = (boxes[1:] == boxes[:-1]).all(axis=1) & (states[1:] == states[:-1])
        starts = np.flatnonzero(np.r_[True, ~same])
        # With an infinite limit (no placement known yet), one box holds all rows.
        if len(starts) <= width - width // 2 or side > limit * WIDEST_BOX or not boxes.any():
            break
        side *= WIDER
    low = np.minimum.reduceat(other_loads[by_box], starts, axis=0)
    return np.r_[exact, others[by_box[starts]]], np.concatenate([loads[exact], low]), side
