"""A model as a row of segments, GPU and DLA in turn: where its items may stand in the row, and what each segment takes."""

from __future__ import annotations

from typing import Iterator, List, Protocol, Tuple

import numpy as np

from edgedla.placement.solvers.several.graph import Ways
from edgedla.placement.solvers.streams.columns import Columns
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.state_arrays import distinct, packed

#: A segment that takes no longer is empty: it waits for nothing.
EMPTY_US = 1e-9

#: Of the numbers in a row: one bit for each segment has room.
ROW = np.int32


class Rest(Protocol):
    """What is known of the items to come, without loadables."""

    def rest_of_rows(self, i: int, states: np.ndarray) -> np.ndarray:
        """By state before item i, as `Columns` has them, and by weight, the least that is still to come."""


def state_rows(frontier: Frontier, columns: Columns, i: int, states: np.ndarray) -> np.ndarray:
    """States before item i as `Columns` has them, without loadables.

    Args:
        states: per live item its segment or its place, whose lowest bit tells GPU from core, then per live flow where GPU and
            core have it, or 0; the last column but one says where the engine's start is paid.
    """
    rows = np.zeros((len(states), columns.size), np.int16)
    at = {item: a for a, item in enumerate(frontier.live_items[i])}
    for a in range(columns.items):
        rows[:, columns.device(a)] = states[:, a] & 1
    for a, k in enumerate(frontier.live_flows[i]):
        producer = frontier.problem.flows[k].producer
        source = np.zeros(len(states), ROW) if producer is None else states[:, at[producer]] & 1
        on_gpu, on_core = (states[:, columns.items + 2 * a + d] > 0 for d in (0, 1))
        rows[:, columns.paid_at + a] = np.left_shift(1, source) | on_gpu | on_core * 2
    rows[:, columns.engine_at] = states[:, -2] > 0
    return rows


class SegmentArrays:
    """The placements of a model with so many loadables on one core, with the GPU before, between and behind.

    Segment 0 is the GPU's, segment 1 the first loadable's, and so on; a GPU segment may be empty. What a placement costs in
    each segment is what `schedule.segments` adds up to. An item stands in no earlier segment than those that it reads. On
    the GPU it runs in the first such segment, for what can run on the device that runs now does. In which of several
    loadables TensorRT puts it, where there is a choice, is left open: so every placement is among these, or costs no less
    than one of them, with two loadables that follow each other taken for one.

    Many states are stepped over one item together, each as integers: the segment of each live item; by live flow, for the
    GPU and for the core, the first segment that reads it there; the segment that pays the engine; the segments in use, as
    bits. Segments that may be missing are counted from 1, 0 is none.

    Attributes:
        devices: by segment, as positions in the frontier's devices.
        fixed: by segment, what loadables cost by being there, us.
        may_be_empty: by segment between others, whether some placement leaves it without time: then it waits for nothing.
    """

    def __init__(self, frontier: Frontier, loadables: int, flat: Rest) -> None:
        """
        Args:
            flat: what bounds go by.
        """
        self.frontier, self._flat = frontier, flat
        self.devices = (0, *(1, 0) * loadables)
        self.columns, self.last = len(self.devices), len(self.devices) - 1
        self.fixed = tuple(frontier.loadable_us if d else 0.0 for d in self.devices)
        empty = without_time(frontier)
        self.may_be_empty = tuple(0 < k < self.last and empty[d] for k, d in enumerate(self.devices))
        self.start = np.zeros((1, 2), ROW)
        self._columns = [Columns(self.frontier, i) for i in range(len(self.frontier.allowed) + 1)]

    def ways(self, i: int, states: np.ndarray) -> Tuple[np.ndarray, Ways]:
        """(the states behind item i, the ways there from these states before it)."""
        of: List[np.ndarray] = []
        parts: List[Tuple[np.ndarray, np.ndarray]] = []
        choices: List[np.ndarray] = []
        for k in range(self.columns):
            may = np.flatnonzero(self._may(i, states, k))
            for which, *part in self._stepped(i, states[may], k) if len(may) else ():
                of.append(may[which])
                choices.append(np.full(len(which), k, np.int8))
                parts.append((part[0], part[1]))
        if not of:
            none = np.zeros(0, int)
            return states[:0], Ways(np.zeros(len(states) + 1, int), none, none, np.zeros((0, self.columns)))
        from_state = np.concatenate(of)
        order = np.argsort(from_state, kind="stable")
        behind, load = (np.concatenate(x)[order] for x in zip(*parts))
        first, target = distinct(packed(behind))
        ways = Ways(
            np.searchsorted(from_state[order], np.arange(len(states) + 1)), target, np.concatenate(choices)[order], load
        )
        return behind[first], ways

    def taken(self, states: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Some of the states."""
        return states[which]

    def is_whole(self, states: np.ndarray) -> np.ndarray:
        """By state, at the end: no loadable is empty, and between two of them the GPU has work."""
        used, whole = states[:, -1], np.ones(len(states), bool)
        for k in range(1, self.last, 2):
            whole &= (used >> k & 1) > 0
            if k > 1:
                whole &= (used >> (k - 1) & 1) > 0
        return whole

    def rest(self, i: int, states: np.ndarray) -> np.ndarray:
        """By state before item i and by weight, the least that is still to come."""
        return self._flat.rest_of_rows(i, self._rows(i, states))

    def _rows(self, i: int, states: np.ndarray) -> np.ndarray:
        """The states before item i as `Columns` has them, without loadables."""
        return state_rows(self.frontier, self._columns[i], i, states)

    def _may(self, i: int, states: np.ndarray, k: int) -> np.ndarray:
        """From which states item i may go to segment k."""
        before = self.frontier.steps[i].predecessors
        first = states[:, list(before)].max(axis=1) if before else np.zeros(len(states), ROW)
        odd = first & 1
        if k % 2 not in self.frontier.allowed[i] or (k % 2 and k >= self.last):
            may = np.zeros(len(states), bool)
        elif k % 2:
            may = k >= first + 1 - odd
            if len(self.frontier.live_items[i]) == 1 and not self.frontier.steps[i].items_at:
                # Nothing else reads that loadable, and nothing stands behind it: no path leads past item i to a later one.
                may &= (odd == 0) | (k == first) | (states[:, -1] >> (first + 1) > 0)
        else:
            may = k == first + odd
            if not before and k == 2:
                may[:] = True
        return may

    def _stepped(self, i: int, states: np.ndarray, k: int) -> Iterator[Tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(which of the states, the states behind item i in segment k, what that adds to each segment)."""
        yield (np.arange(len(states)), *self._step(i, states, k))

    def _step(self, i: int, states: np.ndarray, k: int) -> Tuple[np.ndarray, np.ndarray]:
        """(the states behind item i in segment k, what that adds to each segment)."""
        f, s, device, n = self.frontier, self.frontier.steps[i], k % 2, len(states)
        live = len(f.live_items[i])
        load = np.zeros((n, self.columns))
        load[:, k] = s.times[device]
        engine: np.ndarray = states[:, -2]
        used: np.ndarray = states[:, -1] | ROW(1 << k)
        if s.has_layers and device == 0 or s.is_last:
            pays = engine == 0
            if s.has_layers and device == 0:
                pays |= k + 1 < engine
                _add(load, pays & (engine > 0), engine - 1, -f.engine_us)
            load[pays, k] += f.engine_us
            engine = np.where(pays, k + 1, engine)
        none: np.ndarray = np.zeros(n, ROW)
        brought = [(states[:, live + 2 * a], states[:, live + 2 * a + 1]) for a in range(len(f.live_flows[i]))]
        for x in s.inputs:
            source = none if x.producer_at is None else states[:, x.producer_at] & 1
            had = (none, none) if x.paid_at is None else brought[x.paid_at]
            at, cost = had[device], x.cost[1 - device][device]
            # What comes from the GPU is made ready in its segment before.
            pays = (source != device) & ((at == 0) | (k + 1 < at))
            load[pays, k - device] += cost
            _add(load, pays & (at > 0), at - 1 - device, -cost)
            if cost > 0:
                used = used | pays.astype(ROW) << (k - device)
            now = np.where(pays, k + 1, at)
            brought.append((now, had[1]) if device == 0 else (had[0], now))
        for producer_at, cost_by_device in s.links:
            load[:, k] += (states[:, producer_at] & 1 != device) * cost_by_device[device]
        for out in s.outputs:
            read = none
            if out.is_output and device:
                load[:, self.last] += out.to_gpu[device]
                read = none + ROW(self.last + 1)
            brought.append((read, none))
        brought.append((none, none))
        behind = [states[:, a] for a in s.items_at] + ([none + ROW(k)] if s.is_kept else [])
        for a in s.masks_at:
            behind += brought[a]
        return np.stack([*behind, engine, used], axis=1).astype(ROW), load


def without_time(f: Frontier) -> Tuple[bool, bool]:
    """Whether the GPU's work between two loadables, and a loadable, may take no time.

    What the GPU runs between two loadables reads something that the first one wrote, or is a reformat that takes time.
    """
    gpu = core = False
    for allowed, step in zip(f.allowed, f.steps):
        brought = [x.cost[1][0] for x in step.inputs if x.producer_at is not None]
        gpu |= 0 in allowed and step.times[0] <= EMPTY_US and min(brought, default=0.0) <= EMPTY_US
        core |= 1 in allowed and step.times[1] + f.loadable_us <= EMPTY_US
    return gpu, core


def _add(load: np.ndarray, rows: np.ndarray, column: np.ndarray, us: float) -> None:
    """Adds to one column of each of some rows."""
    which = np.flatnonzero(rows)
    load[which, column[which]] += us
