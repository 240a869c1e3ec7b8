"""One model placed around others: the placement that ends first, given when the others occupy each device."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.busiest.rows import Edges
from edgedla.placement.solvers.states.state_arrays import StateArrays

#: States kept before each item for each plan of the others.
KEPT = 12


class Taken(NamedTuple):
    """When the other models have a device: (plans, intervals) of starts and ends in us, ascending, padded with infinity."""

    starts: np.ndarray
    ends: np.ndarray


def taken(plans: Sequence[Sequence[Tuple[float, float]]]) -> Taken:
    """From the intervals (start, end) of each plan, in us; they must not overlap."""
    most = max((len(p) for p in plans), default=0)
    starts, ends = np.full((len(plans), most), np.inf), np.full((len(plans), most), np.inf)
    for row, plan in enumerate(plans):
        for k, (start, end) in enumerate(sorted(plan)):
            starts[row, k], ends[row, k] = start, end
    return Taken(starts, ends)


def first_start(earliest: np.ndarray, length: np.ndarray, busy: Taken) -> np.ndarray:
    """(ways, plans): when uninterrupted work can start; work of length 0 waits for nothing."""
    start = earliest
    if not len(start):
        return start
    soonest = start.min()
    for a, b in zip(busy.starts.T, busy.ends.T):
        # Most intervals end before any of the work starts; this check saves five passes over each.
        if np.where(np.isinf(b), -np.inf, b).max() > soonest:
            meets = (start < b) & (start + length > a) & (length > 0)
            start = np.where(meets, b, start)
    return start


def around(
    model: StateArrays,
    items: int,
    prices: Prices,
    factors: np.ndarray,
    busy: Sequence[Taken],
    guide: np.ndarray,
    deadline: Deadline,
    kept: int = KEPT,
) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per plan of the others: (when this one ends, us; the device of each item; the load of each device); no rows after the deadline.

    A beam over the states of the model: before each item, keeps the states of the earliest end, from the time reached plus
    the remaining cost by prices. Consecutive layers on a device are one piece of work.

    Args:
        prices: rows of weights, each the model's own time with surcharges on devices: what is shortest alone may leave the
            others no room.
        factors: slowdown by device.
        busy: per device, when the others have it.
        guide: per plan, the row of the prices to use.
        kept: states kept before each item for each plan; with 1, the way that prices alone lead to.
    """
    plans = len(guide)
    states = model.start
    now, run, extra = np.zeros((1, plans)), np.zeros((1, plans)), np.zeros((1, plans))
    dearer = (prices.weights / factors - 1.0)[guide]
    on = np.zeros((1, plans), np.int8)
    history: List[Tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    column = np.arange(plans)
    for i in range(items):
        if deadline.passed:
            return np.zeros(0), np.zeros((0, items), np.int8), np.zeros((0, len(factors)))
        targets, ways, _ = model.edges(i, states)
        loads = ways.load
        of = np.repeat(np.arange(len(states)), np.diff(ways.first))
        end, length, device = now[of], run[of], on[of]
        dear = extra[of] + (loads * factors) @ dearer.T
        for d in range(len(factors)):
            works = np.flatnonzero(loads[:, d] > 0)
            whole = loads[works, d, None] * factors[d]
            start = end[works]
            follows = device[works] == d
            whole, start = (np.where(follows, length[works], 0.0) + whole, np.where(follows, start - length[works], start))
            end[works] = first_start(start, whole, busy[d]) + whole
            length[works], device[works] = whole, d
        way = _least_way(ways, end + dear, len(targets))
        ahead = prices.rest(i + 1, targets)[:, guide]
        reached = end[way, column] + dear[way, column] + ahead
        if len(targets) > kept:
            stay = np.unique(np.argpartition(reached, kept, axis=0)[:kept])
        else:
            stay = np.arange(len(targets))
        states, way = targets[stay], way[stay]
        now, run, on, extra = end[way, column], length[way, column], device[way, column], dear[way, column]
        history.append((of[way], ways.device[way], loads[way]))
    row = (now + extra).argmin(axis=0)
    ends = now[row, column]
    choices, of_device = np.zeros((plans, items), np.int8), np.zeros((plans, len(factors)))
    for i in reversed(range(items)):
        parent, choice, load = history[i]
        choices[:, i] = choice[row, column]
        of_device += load[row, column]
        row = parent[row, column]
    return ends, choices, of_device


def _least_way(ways: Edges, value: np.ndarray, targets: int) -> np.ndarray:
    """(targets, plans): the way to each target with the lowest `value`; the first of equal ones."""
    order = np.argsort(ways.target, kind="stable")
    counts = np.bincount(ways.target, minlength=targets)
    # Each target has few ways: one pass takes the first way of every target, the next the second, and so on.
    first = np.cumsum(counts) - counts
    way = np.repeat(order[first][:, None], value.shape[1], axis=1)
    least = value[order[first]]
    for k in range(1, int(counts.max())):
        more = np.flatnonzero(counts > k)
        rival = order[first[more] + k]
        better = value[rival] < least[more]
        way[more] = np.where(better, rival[:, None], way[more])
        least[more] = np.where(better, value[rival], least[more])
    return way
