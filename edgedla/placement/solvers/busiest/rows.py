"""Many partial placements at once, as columns of arrays: continued, bounded, merged and pruned by dominance."""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

import numpy as np

#: Rows compared pairwise in one block.
BLOCK = 128

#: Factor by which boxes are wider in the direction that shifts load between the two cores.
SHARED_OUT = 8.0

#: Side of the boxes in which rows are merged, as a share of the limit: the first, and the maximum.
FINEST_BOX, WIDEST_BOX = 2.0**-15, 0.004

#: Values from which on NumPy's own reduction of a row or group is quicker than taking halves, or one place after the other.
LONG_ROW = 16


class Edges(NamedTuple):
    """The edges from each state that place one item, ordered by the state before it.

    Attributes:
        first: the edges of state s are `first[s]` to `first[s + 1]`; (states + 1).
        target: index of the state after the item.
        device: position of the item's device.
        load: added to the load of each device, in us per period; (edges, devices).
        swapped: whether the state after the item is stored with its two cores swapped.
    """

    first: np.ndarray
    target: np.ndarray
    device: np.ndarray
    load: np.ndarray
    swapped: np.ndarray

    def only(self, which: np.ndarray) -> Edges:
        """These edges, from all the states."""
        counts = np.r_[0, np.cumsum(which)][self.first]
        return Edges(counts, *(column[which] for column in self[1:]))

    def of_states(self, which: np.ndarray) -> Edges:
        """The edges from these states, which are renumbered."""
        counts = np.diff(self.first)
        kept = self.only(np.repeat(which, counts))
        return kept._replace(first=np.r_[0, np.cumsum(counts[which])])


class Rows(NamedTuple):
    """Partial placements; a row may stand for several that were merged.

    Attributes:
        loads: per device, the lowest load among the merged placements; (rows, devices).
        traced: the loads of the one placement that the row can be traced back to; (rows, devices).
        pool: the lowest sum of the cores' loads among the merged placements.
        state: index of the state.
        bound: lower bound of the period of every completion.
        parent, device, swapped: the row before, the device of the last item, and whether the cores were swapped.
    """

    loads: np.ndarray
    traced: np.ndarray
    pool: np.ndarray
    state: np.ndarray
    bound: np.ndarray
    parent: np.ndarray
    device: np.ndarray
    swapped: np.ndarray

    def take(self, which: np.ndarray) -> Rows:
        return Rows(*(column[which] for column in self))


def first_row(devices: int) -> Rows:
    """The single row with nothing placed."""
    return Rows(*(np.zeros((1, devices)) for _ in range(2)), *(np.zeros(1, t) for t in (float, int, float, int, np.int8, bool)))


def ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The ranges first[k], first[k] + 1, ... of counts[k] numbers each, joined."""
    numbers: np.ndarray = np.arange(int(counts.sum())) + np.repeat(first - np.cumsum(counts) + counts, counts)
    return numbers


def row_maxima(values: np.ndarray) -> np.ndarray:
    """The largest value of each row; NumPy's own `max` along short rows takes a multiple of the time."""
    if values.shape[1] > LONG_ROW:
        of_rows: np.ndarray = values[np.arange(len(values)), values.argmax(axis=1)]
        return of_rows
    while values.shape[1] > 1:
        half = (values.shape[1] + 1) // 2
        values = np.maximum(values[:, :half], values[:, -half:])
    return values[:, 0]


def continued(edges: Edges, rows: Rows, symmetric: np.ndarray) -> Rows:
    """All continuations by one item. If the cores are alike, each row is stored as the smaller of its two mirror images."""
    counts = np.diff(edges.first)[rows.state]
    parent = np.repeat(np.arange(len(rows.state)), counts)
    edge = ranges(edges.first[rows.state], counts)
    added = edges.load[edge]
    loads, traced = rows.loads[parent] + added, rows.traced[parent] + added
    pool = rows.pool[parent] + added[:, 1:].sum(axis=1)
    state, swapped = edges.target[edge], edges.swapped[edge].copy()
    _swap(swapped, loads, traced)
    if symmetric.any():
        turn = symmetric[state] & (loads[:, 1] < loads[:, 2])
        _swap(turn, loads, traced)
        swapped ^= turn
    return Rows(loads, traced, pool, state, np.zeros(len(edge)), parent, edges.device[edge], swapped)


def _swap(which: np.ndarray, *arrays: np.ndarray) -> None:
    for array in arrays:
        if which.any():
            array[which] = array[which][:, (0, 2, 1)]


def weighted(loads: np.ndarray, pool: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(rows, weights): weighted loads. `pool` is a lower bound of both cores' loads together, and may raise them."""
    if loads.shape[1] < 3:
        return loads @ weights.T
    both = weights[:, 1:].min(axis=1)
    apart = weights - both[:, None] * (0.0, 1.0, 1.0)
    return loads @ apart.T + pool[:, None] * both


def bounds_of(rows: Rows, weights: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """Per row, the best bound over the weights."""
    best = np.empty(len(rows.state))
    for start in range(0, len(best), 16384):
        part = slice(start, start + 16384)
        best[part] = row_maxima(weighted(rows.loads[part], rows.pool[part], weights) + ahead[rows.state[part]])
    return best


def merged_rows(rows: Rows, width: int, limit: float) -> Rows:
    """The `width` / 2 rows with the lowest bounds, and the others merged, per state, into as many boxes of loads.

    Takes the finest grid that fits; if even the coarsest does not, more than `width` rows remain. With two cores, the grid
    covers the sum of both and, in steps wider by the factor SHARED_OUT, the load of one: later items can still balance
    the cores. A row without load on a device is never merged with others: that device's first loadable is still to come.
    """
    by_bound = np.argsort(rows.bound, kind="stable")
    exact, others = rows.take(by_bound[: width // 2]), rows.take(by_bound[width // 2 :])
    side = limit * FINEST_BOX
    kind = others.state.astype(np.int64)
    columns = list(others.loads.T)
    if len(columns) == 3:
        kind = kind * 2 + (columns[2] > 0)
        columns = [columns[0], others.pool, columns[1] / SHARED_OUT]
    while True:
        key = kind
        for column in columns:
            key = key * 2**15 + np.minimum(np.ceil(column / side), 2**15 - 1).astype(np.int64)
        order = np.lexsort((others.bound, key))
        starts = np.flatnonzero(np.r_[True, key[order][1:] != key[order][:-1]])
        # With an infinite limit (no placement known yet), one box holds all rows of a state.
        if len(starts) <= width - width // 2 or side > limit * WIDEST_BOX or np.isinf(side):
            break
        side *= 2.0
    low, pool = (np.minimum.reduceat(values[order], starts, axis=0) for values in (others.loads, others.pool))
    merged = others.take(order[starts])._replace(loads=low, pool=pool)
    return Rows(*(np.concatenate(columns) for columns in zip(exact, merged)))


def undominated(state: np.ndarray, loads: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Which rows no other row of the same state and block dominates. Rows are sorted by state, loads.

    A table of what earlier blocks hold saves a tenth of the two longest searches of 71.
    """
    n, size = loads.shape
    keep = np.ones(n, bool)
    if size == 1:
        keep[1:] = state[1:] != state[:-1]
        return keep
    middle = loads[:, -2] if size > 2 else np.zeros(n)
    for start in range(0, n, BLOCK):
        part = slice(start, min(start + BLOCK, n))
        s, m, x, p = state[part], middle[part], loads[part, -1], pool[part]
        under = (s[:, None] == s) & (m[:, None] <= m + 1e-9) & (x[:, None] <= x + 1e-9) & (p[:, None] <= p + 1e-9)
        under &= ~np.tri(len(s), dtype=bool)
        keep[part] = ~under.any(axis=0)
    return keep


def traced_back(devices: Tuple[str, ...], history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]], row: int) -> Tuple[str, ...]:
    """The devices, by item, of the placement that a final row traces; `history` has (parent, device, swapped) per item."""
    reversed_devices: List[str] = []
    mirror = False
    for parent, device, swapped in reversed(history):
        mirror ^= bool(swapped[row])
        d = int(device[row])
        reversed_devices.append(devices[(0, 2, 1)[d] if mirror else d])
        row = int(parent[row])
    return tuple(reversed(reversed_devices))
