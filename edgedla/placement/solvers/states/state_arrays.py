"""Many states at once, as rows of integers: all advanced by one item together."""

from __future__ import annotations

from functools import reduce
from typing import List, Tuple

import numpy as np

from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.busiest.rows import Edges, Rows
from edgedla.placement.solvers.states.columns import Columns, implied_paths, usable_slack
from edgedla.placement.solvers.states.frontier import Frontier

#: Bits used per word when rows are packed for comparison.
BITS = 62


class StateArrays:
    """The states of a frontier, item by item, in the layout of `Columns`."""

    def __init__(self, frontier: Frontier, alike: bool, paid: int = 0, merged: bool = False) -> None:
        """Steps over a frontier's items.

        Args:
            alike: the two cores are equal, so that one of two mirror images is enough.
            paid: loadables per core that the first item pays in advance, whether or not so many are formed.
            merged: slack that can no longer matter is lowered, so that more states are equal. Rows of other arrays differ then.
        """
        self.frontier, self.alike, self.paid = frontier, alike, paid
        self.allowed = frontier.allowed
        self.columns = [Columns(frontier, i) for i in range(len(frontier.allowed) + 1)]
        self._implied = implied_paths(frontier) if merged else None
        self._usable = usable_slack(frontier) if merged else []
        first = self.columns[0]
        self.start: np.ndarray = np.zeros((1, first.size), np.int16)
        self.start[:, first.counts_at : first.ends_at] = paid

    def edges(self, i: int, states: np.ndarray) -> Tuple[np.ndarray, Edges, np.ndarray]:
        """(states after item i, edges to them, which of the states are their own mirror images)."""
        allowed, n = self.allowed[i], len(states)
        parts = [self.step(i, states, d) for d in allowed]
        # Ordered by state, then by device.
        behind, load, of, device = (
            np.stack(columns, axis=1).reshape(n * len(allowed), *columns[0].shape[1:])
            for columns in zip(*((*p, np.arange(n), np.full(n, d, np.int8)) for p, d in zip(parts, allowed)))
        )
        there = self.there(behind)
        behind, load, of, device = behind[there], load[there], of[there], device[there]
        image = self.columns[i + 1].mirrored(behind) if self.alike else behind[:0]
        keys = packed(np.concatenate([behind, image]))
        swapped = symmetric = np.zeros(len(behind), bool)
        if self.alike:
            own, other = keys[: len(behind)], keys[len(behind) :]
            swapped, symmetric = _less(other, own), (own == other).all(axis=1)
            keys = np.where(swapped[:, None], other, own)
            behind = np.where(swapped[:, None], image, behind)
        first, target = distinct(keys)
        edges = Edges(np.searchsorted(of, np.arange(n + 1)), target, device, load, swapped)
        return behind[first], edges, symmetric[first]

    def there(self, states: np.ndarray) -> np.ndarray:
        """Which states lie on a placement that may still be of interest."""
        return np.ones(len(states), bool)

    def kinds(self, states: np.ndarray) -> np.ndarray:
        """A number per state. Rows with equal numbers have equal futures, so one with lower loads dominates the other."""
        return np.arange(len(states))

    def rest(self, i: int, states: np.ndarray, prices: Prices) -> np.ndarray:
        """Per state before item i and per weight, the least that the items from i on add to the weighted loads."""
        return prices.rest(i, states)

    def bounds(self, i: int, states: np.ndarray, rows: Rows) -> np.ndarray:
        """Per partial placement before item i, a lower bound of the period of all its completions."""
        return np.zeros(len(rows.state))

    def step(self, i: int, states: np.ndarray, device: int) -> Tuple[np.ndarray, np.ndarray]:
        """(states after item i on a device, what it adds to the loads), per state."""
        return self.counted_step(i, states, device)[:2]

    def counted_step(self, i: int, states: np.ndarray, device: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`step`, and the number of loadables it adds."""
        f, s, c, after = self.frontier, self.frontier.steps[i], self.columns[i], self.columns[i + 1]
        n = len(states)
        load, added = np.zeros((n, len(f.devices))), np.zeros(n, np.int16)
        load[:, device] = s.times[device]
        engine = states[:, c.engine_at]
        if s.has_layers and device == 0 or s.is_last:
            load[:, device] += (engine == 0) * f.engine_us
            engine = np.ones(n, np.int16)
        masks = self._transitions(i, states, device, load)
        behind = np.zeros((n, after.size), np.int16)
        for kept, at in enumerate(s.items_at):
            behind[:, after.device(kept) : after.device(kept + 1)] = states[:, c.device(at) : c.device(at + 1)]
        if s.is_kept:
            behind[:, after.device(len(s.items_at))] = device
        for a, core in enumerate(f.cores):
            new = self._loadables(i, states, behind, device, a)
            load[:, core] += new * f.loadable_us
            added += new
        for a, at in enumerate(s.masks_at):
            behind[:, after.paid_at + a] = masks[at]
        if not s.ends_model:
            behind[:, after.engine_at] = engine
        if i == 0:
            load[:, 1:] += self.paid * f.loadable_us
        return behind, load * s.rate, added

    def _loadables(self, i: int, states: np.ndarray, behind: np.ndarray, device: int, a: int) -> np.ndarray:
        """The loadables that item i on a device adds on a core; fills in what `behind` holds of them. `a` is the core's place."""
        f, s, c, after = self.frontier, self.frontier.steps[i], self.columns[i], self.columns[i + 1]
        core, n = f.cores[a], len(states)
        on = int(device == core)
        if s.predecessors:
            left = reduce(np.minimum, [states[:, c.slack(p, a)] - on * (states[:, c.device(p)] != core) for p in s.predecessors])
        else:
            left = states[:, c.counts_at + a] - on
        new, slack = (left < 0).astype(np.int16), np.maximum(left, 0)
        ends = states[:, c.ends_at + a]
        ends = np.where((new > 0) & (ends == 1), 0, ends)
        if s.is_end and on:
            new, ends = new + (ends == 1).astype(np.int16), np.full(n, 2, np.int16)
        elif s.is_end:
            new = new + ((slack == 0) & (ends == 2)).astype(np.int16)
            ends = np.where(slack == 0, np.where(ends == 2, 2, 1), ends)
        behind[:, after.slack(0, a) : after.slack(len(s.items_at), a) : 1 + after.cores] += new[:, None]
        if s.is_kept:
            behind[:, after.slack(len(s.items_at), a)] = slack
        if self._implied is not None:
            self._lower(i + 1, behind, a, core)
        if s.more_sources:
            behind[:, after.counts_at + a] = states[:, c.counts_at + a] + new
        if s.more_ends:
            behind[:, after.ends_at + a] = ends
        return new

    def _lower(self, i: int, states: np.ndarray, a: int, core: int) -> None:
        """Lowers the slack of items to what can still matter: see `implied_paths` and `usable_slack`."""
        assert self._implied is not None
        c = self.columns[i]
        slack = states[:, c.slack(0, a) : c.slack(c.items, a) : 1 + c.cores]
        off, on = self._usable[i][:, :, a]
        usable = np.where(states[:, : c.device(c.items) : 1 + c.cores] == core, on, off)
        np.minimum(slack, usable, out=slack)
        for item, others in reversed(self._implied[i]):
            apart = states[:, c.device(item)] != core
            least = [states[:, c.slack(b, a)] + (apart & (states[:, c.device(b)] == core)) for b in others]
            slack[:, item] = np.minimum(reduce(np.maximum, least), usable[:, item])

    def _transitions(self, i: int, states: np.ndarray, device: int, load: np.ndarray) -> List[np.ndarray]:
        """`paid` masks of every tensor after item i, in the order of `Frontier`; adds the cost of the transitions to `load`."""
        f, s, c, n = self.frontier, self.frontier.steps[i], self.columns[i], len(states)
        masks = [states[:, c.paid_at + a] for a in range(c.flows)]
        for x in s.inputs:
            source = np.zeros(n, np.int16) if x.producer_at is None else states[:, c.device(x.producer_at)]
            mask = np.ones(n, np.int16) if x.paid_at is None else states[:, c.paid_at + x.paid_at]
            cost = np.array([x.cost[a][device] for a in range(len(f.devices))])[source]
            cost = np.where(mask >> device & 1, 0.0, cost)
            if device:
                load[:, device] += np.where(source > 0, cost, 0.0)
                load[:, 0] += np.where(source > 0, 0.0, cost)
            else:
                load[:, 0] += cost
            masks.append(mask | 1 << device)
        for producer_at, link_cost in s.links:
            load[:, device] += (states[:, c.device(producer_at)] != device) * link_cost[device]
        for out in s.outputs:
            to_gpu = out.is_output and device > 0
            if to_gpu:
                load[:, 0] += out.to_gpu[device]
            masks.append(np.full(n, 1 << device | to_gpu, np.int16))
        masks.append(np.ones(n, np.int16))
        return masks


def packed(rows: np.ndarray) -> np.ndarray:
    """Each row of numbers from 0 on packed into few integers; equal rows, and only those, give equal results."""
    words, places = [0], []
    for most in rows.max(axis=0, initial=0).tolist():
        bits = int(most).bit_length()
        if words[-1] + bits > BITS:
            words.append(0)
        words[-1] += bits
        places.append((len(words) - 1, words[-1], bits))
    factors = np.zeros((len(places), len(words)), np.int64)
    for column, (word, end, bits) in enumerate(places):
        if bits:
            factors[column, word] = 1 << (words[word] - end)
    return rows.astype(np.int64) @ factors


def _less(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which rows of a sort before those of b."""
    less = a[:, -1] < b[:, -1]
    for x, y in zip(a.T[-2::-1], b.T[-2::-1]):
        less = (x < y) | (x == y) & less
    return less


def distinct(keys: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """(index of the first occurrence of each distinct row, number of the distinct row that each row equals)."""
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    number = np.empty(len(keys), int)
    number[order] = np.cumsum(new) - 1
    return order[new], number
