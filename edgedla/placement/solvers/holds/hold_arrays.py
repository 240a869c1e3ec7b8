"""A model as a row of holds of the GPU and breaks between them: where its items may stand, and what each takes."""

from __future__ import annotations

from typing import Any, List, Protocol, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.holds.to_come import Before, ToCome
from edgedla.placement.solvers.several.graph import Ways
from edgedla.placement.solvers.several.segment_arrays import state_rows
from edgedla.placement.solvers.streams.columns import Columns
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.prices.trunk import trunk
from edgedla.placement.solvers.streams.state_arrays import distinct, packed

#: Of the numbers in a row.
ROW = np.int32

#: The loadables of a hold: none; some along the trunk; one aside from it, which may be the same as the trunk's next one.
NO_LOADABLE, ALONG, ASIDE = range(3)


class Rest(Protocol):
    """What is known of the items to come."""

    def rest(self, i: int, arrays: HoldArrays, states: np.ndarray) -> np.ndarray:
        """By state before item i and by weight, the least that is still to come."""


class HoldArrays:
    """The placements of a model with so many holds told apart, and all the rest in any order.

    A hold is a stretch in which no other model uses the GPU: from the beginning of a GPU segment to the end of one, with all
    loadables between. In the break behind it the model is on its core alone. Place 0 is the first hold, place 1 the break
    behind it, and so on; the last place is the rest. The first hold may be empty.

    An item stands in no earlier place than those that it reads. On the GPU it runs in the first hold that it may be in, for
    a GPU segment runs what it can. Which loadable an item on the core is in is left open: a break has one, a hold as many as
    lie along the trunk, and one if there is an item on the core at all. So every placement is among these, or costs no less
    in any place than one of them.

    Columns: by place, what it takes; of the rest the GPU, the core, and apart from these the core's loadables. All count
    slowdown.

    Many states are stepped over one item together, each as integers: by live item twice its place, and 1 more on the core; by
    live flow, for the GPU and for the core, the first place that reads it there, counted from 1; by hold its loadables; the
    place that pays the engine, counted from 1; the places in use, as bits. What no item to come can tell apart is made equal.

    Attributes:
        rest_at: the last place.
        columns, start: as `Steps` have them.
    """

    def __init__(self, frontier: Frontier, holds: int, factors: Sequence[float], to_come: ToCome, known: Rest) -> None:
        """
        Args:
            factors: slowdown of the GPU and of the core.
            known: what bounds go by.
        """
        self.frontier, self._factors, self._to_come, self._known = frontier, factors, to_come, known
        self.rest_at, self._trunk = 2 * holds, trunk(frontier)
        self.columns = self.rest_at + 3
        # With one hold told apart, a model may also have no other.
        self._needs_all = holds > 1
        self.start: np.ndarray = np.zeros((1, holds + 3), ROW)
        self._columns = [Columns(frontier, i) for i in range(len(frontier.allowed) + 1)]

    def ways(self, i: int, states: np.ndarray) -> Tuple[np.ndarray, Ways]:
        """(the states behind item i, the ways there from these states before it)."""
        of: List[np.ndarray] = []
        parts: List[Tuple[np.ndarray, np.ndarray]] = []
        choices: List[np.ndarray] = []
        for device in self.frontier.allowed[i]:
            which, place = self._places(i, states, device)
            of.append(which)
            choices.append((2 * place + device).astype(np.int8))
            parts.append(self._step(i, states[which], place, device))
        from_state, choice = np.concatenate(of), np.concatenate(choices)
        behind, load = (np.concatenate(x) for x in zip(*parts))
        if self._tells(i + 1):
            earliest = self._merge(i + 1, behind)
            keep = self._is_used(behind, earliest)
            from_state, choice, behind, load = from_state[keep], choice[keep], behind[keep], load[keep]
        order = np.argsort(from_state, kind="stable")
        behind = behind[order]
        first, target = distinct(packed(behind))
        begins = np.searchsorted(from_state[order], np.arange(len(states) + 1))
        return behind[first], Ways(begins, target, choice[order], load[order])

    def taken(self, states: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Some of the states."""
        return states[which]

    def is_whole(self, states: np.ndarray) -> np.ndarray:
        """By state, at the end: no break is empty, nor a hold between two."""
        return self._is_used(states, np.full(len(states), self.rest_at))

    def rest(self, i: int, states: np.ndarray) -> np.ndarray:
        """By state before item i and by weight, the least that is still to come."""
        return self._known.rest(i, self, states)

    def rows(self, i: int, states: np.ndarray) -> np.ndarray:
        """The states before item i as `Columns` has them, without loadables."""
        return state_rows(self.frontier, self._columns[i], i, states)

    def keys(self, i: int, states: np.ndarray, rest_at: int) -> np.ndarray:
        """The states before item i without loadables, as if all places from `rest_at` on were one."""
        items, flows = len(self.frontier.live_items[i]), len(self.frontier.live_flows[i])
        seen = np.concatenate([states[:, : items + 2 * flows], states[:, -2:-1]], axis=1)
        seen[:, :items] = np.minimum(seen[:, :items] >> 1, rest_at) * 2 + (seen[:, :items] & 1)
        seen[:, items:] = np.minimum(seen[:, items:], rest_at + 1)
        if self._tells(i):
            self._merge_paid(i, seen, seen[:, items:-1], seen[:, -1])
        return seen

    def earliest(self, i: int, states: np.ndarray) -> np.ndarray:
        """By state before item i, the earliest place in which an item to come may stand."""
        if not self._tells(i):
            return np.zeros(len(states), int)
        earliest: np.ndarray = states[:, : len(self.frontier.live_items[i])].min(axis=1) >> 1
        return earliest

    def _tells(self, i: int) -> bool:
        """Whether the live items before item i tell where those to come may stand: each of these reads something."""
        return i > 0 and bool(self.frontier.live_items[i]) and not self.frontier.steps[i - 1].more_sources

    def _places(self, i: int, states: np.ndarray, device: int) -> Tuple[np.ndarray, np.ndarray]:
        """(which of the states item i may go on from, and to which place) on a device."""
        step, all_states = self.frontier.steps[i], np.arange(len(states))
        first: np.ndarray = np.zeros(len(states), ROW)
        for a in step.predecessors:
            first = np.maximum(first, states[:, a] >> 1)
        if device == 0:
            if step.predecessors or not self.rest_at:
                return all_states, first + (first & 1)
            # A model may begin on its core.
            return np.tile(all_states, 2), np.repeat([0, 2], len(states))
        places = np.arange(self.rest_at + 1)
        may = first[:, None] <= places
        if self._needs_all and step.predecessors and len(self.frontier.live_items[i]) == 1 and not step.items_at:
            # Nothing is left to run before it, nor beside it, unless something already stands in a later place: TensorRT may
            # put it there too. With one hold told apart the states do not say whether something does, so nothing is ruled out.
            on_core = (states[:, 0] & 1) == 1
            last = first + ~on_core * (self.rest_at if step.more_sources else 1)
            last[states[:, -1] >> (first + 1) > 0] = self.rest_at
            may &= places <= last[:, None]
        which, place = np.nonzero(may)
        return which, place

    def _step(self, i: int, states: np.ndarray, place: np.ndarray, device: int) -> Tuple[np.ndarray, np.ndarray]:
        """(the states behind item i in these places, what that adds to each column)."""
        f, s = self.frontier, self.frontier.steps[i]
        items, flows = len(f.live_items[i]), len(f.live_flows[i])
        slower, on_gpu = self._factors[device], self._factors[0]
        rows, none = np.arange(len(states)), np.zeros(len(states), ROW)
        hold, is_break = place - place % 2, place % 2 == 1
        load = np.zeros((len(states), self.columns))
        column = place + (device == 1) * (place == self.rest_at)
        load[rows, column] = s.times[device] * slower
        engine: Any = states[:, -2]
        used: Any = np.where(is_break | (device == 0), states[:, -1] | 1 << place, states[:, -1])
        if s.has_layers and device == 0 or s.is_last:
            pays = engine == 0
            if s.has_layers and device == 0:
                pays |= place + 1 < engine
                _add(load, pays & (engine > 0), engine - 1, -f.engine_us * slower)
            _add(load, pays, column, f.engine_us * slower)
            engine = np.where(pays, place + 1, engine)
        brought = [(states[:, items + 2 * a], states[:, items + 2 * a + 1]) for a in range(flows)]
        for x in s.inputs:
            source = none if x.producer_at is None else states[:, x.producer_at] & 1
            had = (none, none) if x.paid_at is None else brought[x.paid_at]
            at, cost = had[device], x.cost[1 - device][device] * on_gpu
            # What a loadable in a break reads is made ready in the hold before.
            pays = (source != device) & ((at == 0) | (place + 1 < at))
            if cost > 0:
                _add(load, pays, hold, cost)
                _add(load, pays & (at > 0), (at - 1) - (at - 1) % 2, -cost)
                used = np.where(pays, used | 1 << hold, used)
            now = np.where(pays, place + 1, at)
            brought.append((now, had[1]) if device == 0 else (had[0], now))
        for producer_at, cost_by_device in s.links:
            _add(load, (states[:, producer_at] & 1) != device, column, cost_by_device[device] * slower)
        for out in s.outputs:
            read: np.ndarray = none
            if out.is_output and device:
                load[:, self.rest_at] += out.to_gpu[device] * on_gpu
                read = none + ROW(self.rest_at + 1)
            brought.append((read, none))
        brought.append((none, none))
        loadables = states[:, items + 2 * flows : -2].copy()
        if device:
            opens = np.where(is_break, states[:, -1] >> place & 1 == 0, self._opens(i, states, place, loadables))
            _add(load, opens, place + 2 * (place == self.rest_at), f.loadable_us * slower)
        behind = [states[:, a] for a in s.items_at] + ([2 * place + device] if s.is_kept else [])
        for a in s.masks_at:
            behind += brought[a]
        return np.stack([*behind, *loadables.T, engine, used], axis=1).astype(ROW), load

    def _opens(self, i: int, states: np.ndarray, place: np.ndarray, loadables: np.ndarray) -> np.ndarray:
        """By state, whether item i opens a loadable of its hold; it is added to those that there are."""
        rows = np.flatnonzero(place % 2 == 0)
        hold = place[rows] // 2
        had, opens = loadables[rows, hold], np.zeros(len(states), bool)
        if i in self._trunk:
            before = self._trunk[i]
            begins: np.ndarray = np.ones(len(rows), bool)
            if before is not None:
                begins = states[rows, self.frontier.live_items[i].index(before)] != 2 * place[rows] + 1
            opens[rows] = begins & (had != ASIDE)
            loadables[rows, hold] = np.where(begins, ALONG, had)
        else:
            opens[rows] = had == NO_LOADABLE
            loadables[rows, hold] = np.where(had == NO_LOADABLE, ASIDE, had)
        return opens

    def _is_used(self, states: np.ndarray, earliest: np.ndarray) -> np.ndarray:
        """By state, whether something runs in each place before the earliest one that items to come may stand in."""
        whole = np.ones(len(states), bool)
        for place in range(1, self.rest_at) if self._needs_all else ():
            whole &= (states[:, -1] >> place & 1 > 0) | (earliest <= place)
        return whole

    def _merge(self, i: int, states: np.ndarray) -> np.ndarray:
        """Makes states before item i equal that no item to come can tell apart; by state, its earliest place."""
        of_items, flows = self._to_come.of_items[i], len(self.frontier.live_flows[i])
        items = len(of_items)
        # No reader stands earlier than the latest of the live items before it.
        later = [_least([_latest(states, before) for before in of_item]) for of_item in of_items]
        for a, place in enumerate(later):
            states[:, a] = np.maximum(states[:, a], 2 * place + (states[:, a] & 1))
        earliest = self._merge_paid(i, states, states[:, items : items + 2 * flows], states[:, -2])
        loadables = states[:, items + 2 * flows : -2]
        loadables[np.arange(loadables.shape[1]) * 2 < earliest[:, None]] = NO_LOADABLE
        if not self._needs_all:
            # Only whether a break has its loadable counts.
            states[:, -1] &= ROW(sum(1 << place for place in range(1, self.rest_at, 2)))
            states[:, -1] |= (ROW(1) << earliest) - ROW(1)
        return earliest

    def _merge_paid(self, i: int, states: np.ndarray, paid: np.ndarray, engine: np.ndarray) -> np.ndarray:
        """The same for what is paid; by state, the earliest place of an item to come."""
        for a, of_flow in enumerate(self._to_come.of_flows[i]):
            if of_flow:
                earliest = _least([_latest(states, before) for before in of_flow])
                both = paid[:, 2 * a : 2 * a + 2]
                both[(both > 0) & (both - 1 <= earliest[:, None])] = 1
        earliest = states[:, : len(self.frontier.live_items[i])].min(axis=1) >> 1
        engine[(engine > 0) & (engine - 1 <= earliest)] = 1
        return earliest


def _latest(states: np.ndarray, before: Before) -> np.ndarray:
    """By state, the latest place of these live items."""
    latest: np.ndarray = states[:, before[0]]
    for a in before[1:]:
        latest = np.maximum(latest, states[:, a])
    return latest >> 1


def _least(of_readers: Sequence[np.ndarray]) -> np.ndarray:
    least: np.ndarray = of_readers[0]
    for other in of_readers[1:]:
        least = np.minimum(least, other)
    return least


def _add(load: np.ndarray, rows: np.ndarray, column: np.ndarray, us: float) -> None:
    """Adds to one column of each of some rows."""
    which = np.flatnonzero(rows)
    load[which, column[which]] += us
