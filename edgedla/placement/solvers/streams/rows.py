"""Partial placements side by side, as columns of arrays: continued, bounded, merged, and freed of those that are needless."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

import numpy as np

#: Rows that are compared pair by pair at once.
BLOCK = 128

#: In a block, which of two rows comes before the other.
ABOVE = np.triu(np.ones((BLOCK, BLOCK), bool), 1)

#: Steps of the table that stands for the rows of the blocks before.
EDGES = 256

#: How many of the placements that came through a beam or a sweep are handed out.
HANDED_OUT = 8

#: How much wider the boxes are in the direction in which one of two cores has more and the other less.
SHARED_OUT = 8.0

#: Side of the boxes in which rows are merged, as a share of the limit, where it starts; how it grows; and where it ends.
FINEST_BOX, WIDER, WIDEST_BOX = 2.0**-15, 1.5, 0.004


class Edges(NamedTuple):
    """What placing one item leads to, ordered by the state before it.

    Attributes:
        first: edges of state s are `first[s]` to `first[s + 1]`; (states + 1).
        target: state behind the item.
        device: position of the item's device.
        load: what that adds to the load of each device, in us a period; (edges, devices).
        swapped: the state behind the item is stored with its two cores swapped.
    """

    first: np.ndarray
    target: np.ndarray
    device: np.ndarray
    load: np.ndarray
    swapped: np.ndarray


class Rows(NamedTuple):
    """Partial placements: loads by device that none of those merged in the row is below; loads of the one that is traced;
    what the cores' loads of none of those merged add up to less than; index of the state; bound; where each comes from."""

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
    """Nothing placed, in the only state there is."""
    return Rows(
        *(np.zeros((1, devices)) for _ in range(2)), *(np.zeros(1, t) for t in (float, int, float, int, np.int8, bool))
    )


def ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """first[0], first[0] + 1 and so on, counts[0] of them, then those of first[1], and so on."""
    numbers: np.ndarray = np.arange(int(counts.sum())) + np.repeat(first - np.cumsum(counts) + counts, counts)
    return numbers


def continued(edges: Edges, rows: Rows, symmetric: np.ndarray) -> Rows:
    """All continuations by one item, on mirror images that are the smaller of the two where the cores are alike."""
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
    """The weighted loads of each row, or more where the cores' loads add up to more in all that are merged; (rows, weights)."""
    if loads.shape[1] < 3:
        return loads @ weights.T
    both = weights[:, 1:].min(axis=1)
    apart = weights - both[:, None] * (0.0, 1.0, 1.0)
    return loads @ apart.T + pool[:, None] * both


def bounds_of(rows: Rows, weights: np.ndarray, ahead: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """By row the best bound over the weights, and the weight that gives it."""
    best, which = np.empty(len(rows.state)), np.empty(len(rows.state), int)
    for start in range(0, len(best), 16384):
        part = slice(start, start + 16384)
        least = weighted(rows.loads[part], rows.pool[part], weights) + ahead[rows.state[part]]
        which[part] = least.argmax(axis=1)
        best[part] = least[np.arange(len(least)), which[part]]
    return best, which


def merged_rows(rows: Rows, width: int, limit: float, shared_out: float = SHARED_OUT) -> Rows:
    """The half of `width` with the lowest bounds, and the others merged into as many boxes of loads, by state.

    The finest grid that has room is taken; where the widest has none, more rows than `width` are left. Of two cores, what
    they have together is in the grid and, in steps wider by `shared_out`, what one has: it can still be made up for.
    Rows with no load on a device are not merged with others: its first loadable is still to come.
    """
    by_bound = np.argsort(rows.bound, kind="stable")
    exact, others = rows.take(by_bound[: width // 2]), rows.take(by_bound[width // 2 :])
    side = limit * FINEST_BOX
    kind = others.state.astype(np.int64)
    columns = list(others.loads.T)
    if len(columns) == 3:
        kind = kind * 2 + (columns[2] > 0)
        columns = [columns[0], others.pool, columns[1] / shared_out]
    while True:
        key = kind
        for column in columns:
            key = key * 2**15 + np.minimum(np.ceil(column / side), 2**15 - 1).astype(np.int64)
        order = np.lexsort((others.bound, key))
        starts = np.flatnonzero(np.r_[True, key[order][1:] != key[order][:-1]])
        # Without a limit, as long as no placement is known, one box holds all of a state.
        if len(starts) <= width - width // 2 or side > limit * WIDEST_BOX or np.isinf(side):
            break
        side *= WIDER
    low, pool = (np.minimum.reduceat(values[order], starts, axis=0) for values in (others.loads, others.pool))
    merged = others.take(order[starts])._replace(loads=low, pool=pool)
    return Rows(*(np.concatenate(columns) for columns in zip(exact, merged)))


def undominated(state: np.ndarray, loads: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Which rows no other row of the same state undercuts, as far as that is cheap to see. Rows are sorted by state, loads.

    Rows before in the same block are compared one by one; those of blocks before by a table of the last load. What the
    cores' loads add up to in a row that is not merged is no more than in any row with as much on each.
    """
    n, size = loads.shape
    keep = np.ones(n, bool)
    if size == 1:
        keep[1:] = state[1:] != state[:-1]
        return keep
    middle = loads[:, -2] if size > 2 else np.zeros(n)
    last = loads[:, -1]
    one = pool <= loads[:, 1:].sum(axis=1) + 1e-9
    table: Optional[np.ndarray] = None
    edges = np.zeros(0)
    for start in range(0, n, BLOCK):
        part = slice(start, min(start + BLOCK, n))
        s, m, x, p = state[part], middle[part], last[part], pool[part]
        under = (s[:, None] == s) & (m[:, None] <= m + 1e-9) & (x[:, None] <= x + 1e-9) & (p[:, None] <= p + 1e-9)
        under &= ABOVE[: len(s), : len(s)]
        keep[part] = ~under.any(axis=0)
        if start and s[0] == state[start - 1]:
            if table is None or state[start - 1] != state[start - BLOCK]:
                # A state that goes on: what its rows so far reach, by steps of the middle load.
                begin, end = np.searchsorted(state, (s[0], s[0] + 1))
                edges = np.sort(middle[begin : end : max((end - begin) // EDGES, 1)])
                table = np.full(len(edges) + 1, np.inf)
                before = slice(begin, start)
            else:
                before = slice(start - BLOCK, start)
            alone = one[before]
            _enter(table, edges, middle[before][alone], last[before][alone])
            same = s == s[0]
            at = np.searchsorted(edges, m, side="right") - 1
            keep[part] &= ~(same & (at >= 0) & (table[np.maximum(at, 0)] <= x + 1e-9))
        else:
            table = None
    return keep


def _enter(table: np.ndarray, edges: np.ndarray, middle: np.ndarray, last: np.ndarray) -> None:
    """table[k] = the least last load of the rows whose middle load is at most edges[k]."""
    np.minimum.at(table, np.searchsorted(edges, middle, side="left"), last)
    np.minimum.accumulate(table, out=table)


def traced_back(
    devices: Tuple[str, ...], history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]], row: int
) -> Tuple[str, ...]:
    """The devices by item that a row of the last layer stands for; `history` has (parent, device, swapped) by item."""
    reversed_devices: List[str] = []
    mirror = False
    for parent, device, swapped in reversed(history):
        mirror ^= bool(swapped[row])
        d = int(device[row])
        reversed_devices.append(devices[(0, 2, 1)[d] if mirror else d])
        row = int(parent[row])
    return tuple(reversed(reversed_devices))
