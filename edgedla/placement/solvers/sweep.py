"""The least period by one sweep over the items: all partial placements that may still become the best, side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from edgedla.placement.solvers.frontier import Frontier, State, mirrored
from edgedla.placement.solvers.load_weights import Prices

#: Rows that are compared pair by pair at once.
BLOCK = 128

#: Steps of the table that stands for the rows of the blocks before.
EDGES = 256


@dataclass(frozen=True)
class Swept:
    """What a sweep found.

    Attributes:
        bound: no placement on these engines has a shorter period, if that is below the limit that was given.
        assignment: devices by item of the best one that came through; None where none is below the limit.
        period_us: of that one.
        complete: no partial placement was left out for want of room: a wider sweep finds the same.
        stopped: the deadline came first.
    """

    bound: float
    assignment: Optional[Tuple[str, ...]]
    period_us: float
    complete: bool
    stopped: bool


class _Rows(NamedTuple):
    """Partial placements: load by device, index of the state, bound, and where each comes from."""

    loads: np.ndarray
    state: np.ndarray
    bound: np.ndarray
    parent: np.ndarray
    device: np.ndarray
    swapped: np.ndarray

    def take(self, which: np.ndarray) -> _Rows:
        return _Rows(*(column[which] for column in self))


def sweep(
    frontier: Frontier,
    prices: Prices,
    factors: np.ndarray,
    limit: float,
    width: int,
    alike: bool,
    deadline: float,
    latency_us: Optional[float] = None,
) -> Swept:
    """Item by item, every partial placement is continued on every device that the item may stand on.

    Of two with equal states the one whose loads are all as low makes the other needless. One whose bound reaches
    `limit` is dropped. Of what is left the `width` with the lowest bounds go on; the bounds of the others hold for
    whatever could have become of them.

    Args:
        prices: with weights that are multiplied by the factors.
        factors: slowdown by device.
        limit: periods from here on are of no interest.
        alike: the two cores are, so that of two mirror images one is enough.
        deadline: on time.monotonic's clock.
        latency_us: the loads of one frame must not add up to more; for a problem of one model.
    """
    rows = _Rows(np.zeros((1, len(frontier.devices))), *(np.zeros(1, t) for t in (int, float, int, np.int8, bool)))
    states: List[State] = [frontier.start]
    history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    dropped = np.inf
    for i in range(len(frontier.allowed)):
        states, rows = _continued(frontier, i, states, rows, alike)
        rest = prices.rest(i + 1, states)
        bound = prices.bounds(rows.loads, rows.state, rest)
        keep = bound < limit
        if latency_us is not None:
            keep &= rows.loads.sum(axis=1) <= latency_us * frontier.problem.rates[0] * (1 + 1e-9)
        rows = rows._replace(bound=bound).take(keep)
        order = np.lexsort((*rows.loads.T[::-1], rows.state))
        rows = rows.take(order)
        rows = rows.take(_undominated(rows.state, rows.loads))
        if len(rows.bound) > width:
            by_bound = np.argsort(rows.bound, kind="stable")
            dropped = min(dropped, float(rows.bound[by_bound[width]]))
            rows = rows.take(np.sort(by_bound[:width]))
        if not len(rows.bound):
            return Swept(min(dropped, limit), None, np.inf, dropped == np.inf, False)
        used, index = np.unique(rows.state, return_inverse=True)
        states, rows = [states[u] for u in used], rows._replace(state=index)
        history.append((rows.parent.astype(np.int32), rows.device, rows.swapped))
        if time.monotonic() > deadline:
            return Swept(min(dropped, float(rows.bound.min()), limit), None, np.inf, False, True)
    periods = (rows.loads * factors).max(axis=1)
    best = int(periods.argmin())
    period_us = float(periods[best])
    assignment = _traced(frontier, history, best)
    return Swept(min(dropped, period_us, limit), assignment, period_us, dropped == np.inf, False)


def _continued(frontier: Frontier, i: int, states: List[State], rows: _Rows, alike: bool) -> Tuple[List[State], _Rows]:
    """All continuations by item i, on mirror images that are the smaller of the two where the cores are alike."""
    index: Dict[State, int] = {}
    symmetric: List[bool] = []
    seen: Dict[State, Tuple[int, bool]] = {}
    parts: List[_Rows] = []
    size = len(frontier.devices)
    for device in frontier.allowed[i]:
        target = np.zeros(len(states), int)
        added_loads = np.zeros((len(states), size))
        swapped = np.zeros(len(states), bool)
        for s, state in enumerate(states):
            new, load = frontier.step(i, state, device)
            at = seen.get(new)
            if at is None:
                image = mirrored(new) if alike else new
                least = min(new, image)
                at = seen[new] = (index.setdefault(least, len(index)), least is not new)
                if len(symmetric) < len(index):
                    symmetric.append(alike and image == new)
            target[s], swapped[s] = at
            added_loads[s] = load
        loads = rows.loads + added_loads[rows.state]
        turned = swapped[rows.state]
        if turned.any():
            loads[turned] = loads[turned][:, (0, 2, 1)]
        many = len(loads)
        parts.append(
            _Rows(loads, target[rows.state], np.zeros(many), np.arange(many), np.full(many, device, np.int8), turned)
        )
    new_states = list(index)
    new_rows = _Rows(*(np.concatenate(columns) for columns in zip(*parts)))
    if alike:
        turn = np.array(symmetric)[new_rows.state] & (new_rows.loads[:, 1] < new_rows.loads[:, 2])
        new_rows.loads[turn] = new_rows.loads[turn][:, (0, 2, 1)]
        new_rows.swapped[turn] ^= True
    return new_states, new_rows


def _undominated(state: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """Which rows no other row of the same state undercuts, as far as that is cheap to see. Rows are sorted.

    Rows before in the same block are compared one by one; those of blocks before by a table of the last load.
    """
    n, size = loads.shape
    keep = np.ones(n, bool)
    if size == 1:
        keep[1:] = state[1:] != state[:-1]
        return keep
    middle = loads[:, -2] if size > 2 else np.zeros(n)
    last = loads[:, -1]
    table: Optional[np.ndarray] = None
    edges = np.zeros(0)
    for start in range(0, n, BLOCK):
        part = slice(start, min(start + BLOCK, n))
        s, m, x = state[part], middle[part], last[part]
        under = np.triu((s[:, None] == s) & (m[:, None] <= m + 1e-9) & (x[:, None] <= x + 1e-9), 1)
        keep[part] = ~under.any(axis=0)
        if start and s[0] == state[start - 1]:
            if table is None or state[start - 1] != state[start - BLOCK]:
                # A state that goes on: what its rows so far reach, by steps of the middle load.
                begin, end = np.searchsorted(state, (s[0], s[0] + 1))
                edges = np.sort(middle[begin : end : max((end - begin) // EDGES, 1)])
                table = np.full(len(edges) + 1, np.inf)
                _enter(table, edges, middle[begin:start], last[begin:start])
            else:
                before = slice(start - BLOCK, start)
                _enter(table, edges, middle[before], last[before])
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


def _traced(frontier: Frontier, history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]], row: int) -> Tuple[str, ...]:
    devices = frontier.devices
    reversed_devices: List[str] = []
    mirror = False
    for parent, device, swapped in reversed(history):
        mirror ^= bool(swapped[row])
        d = int(device[row])
        reversed_devices.append(devices[(0, 2, 1)[d] if mirror else d])
        row = int(parent[row])
    return tuple(reversed(reversed_devices))
