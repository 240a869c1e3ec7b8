"""Slots: a model's input, with one newest-item slot per source, and the choice of the source whose turn it is."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, Mapping, Optional, Tuple, TypeVar

T = TypeVar("T")
#: A source with an empty slot at its turn keeps the right to at most this many frames in a row, so that one that was away for
#: an hour does not take the runners for an hour.
MOST_CREDIT = 8.0
#: A source's next item is expected after its mean interval; LATE: share of the interval after which it is no longer waited
#: for. NEWEST: weight of a new interval in the mean.
LATE, NEWEST = 0.25, 0.1


@dataclass(frozen=True)
class Share:
    """A source's share of a model's runners.

    Attributes:
        weight: under overload, sources of one priority share the runners in proportion to their weights.
        priority: waiting frames of the highest priority go first, regardless of weights.
    """

    weight: float = 1.0
    priority: int = 0


class _Slot:
    def __init__(self, share: Share) -> None:
        self.share = share
        self.item: Any = None
        self.full = False
        #: Grows by 1 / weight with each frame taken; the slot with the lowest value is next (stride scheduling,
        #: Waldspurger and Weihl, MIT/LCS/TM-528, 1995).
        self.virtual = 0.0
        self.dropped = self.taken = 0
        #: Whether the waiting item replaced another: the source gives more than its share.
        self.floods = False
        self._last_s, self._interval_s = 0.0, 0.0

    def came(self, now_s: float) -> None:
        """Records the arrival of an item at this time."""
        self.floods = self.full
        self.dropped += self.full
        if self._last_s:
            interval_s = now_s - self._last_s
            self._interval_s += (interval_s - self._interval_s) * (NEWEST if self._interval_s else 1.0)
        self._last_s = now_s

    def due(self, now_s: float, within_s: float) -> Optional[float]:
        """Until when to wait for the next item; None if none is expected in time, or if one waits already."""
        due_s = self._last_s + self._interval_s
        latest_s = due_s + LATE * self._interval_s
        if self.full or self.floods or not self._interval_s or due_s > now_s + within_s or latest_s <= now_s:
            return None
        return latest_s


class Slots(Generic[T]):
    """One slot per source. `put` overwrites an item that nobody took, so memory stays constant and a slow model gets fresh frames.

    A source that floods its slot replaces only its own frames. A hanging source leaves its slot empty, and the others share
    its time by their weights. More than its share a source gets only while no other source is about to need the runner,
    because an inference cannot be interrupted.
    """

    def __init__(self, shares: Mapping[str, Share], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._slots: Dict[str, _Slot] = {name: _Slot(share) for name, share in shares.items()}
        self._now: Dict[int, float] = {}

    @property
    def names(self) -> Tuple[str, ...]:
        return tuple(self._slots)

    def put(self, name: str, item: T, wait: bool = False, stopped: Callable[[], bool] = lambda: False) -> None:
        """Fills the source's slot. The item of a dismissed source is lost.

        Args:
            wait: wait until the slot is empty instead of replacing its item; at `stopped()` the new item is lost.
        """
        with self._condition:
            slot = self._slots.get(name)
            while slot is not None and wait and slot.full and not stopped():
                self._condition.wait(0.2)
                slot = self._slots.get(name)
            if slot is None or (wait and slot.full):
                return
            slot.came(self._clock())
            slot.item, slot.full = item, True
            self._condition.notify_all()

    def admit(self, name: str, share: Share) -> None:
        """Gives a source a slot; if it has one, changes its share from the next frame on."""
        with self._condition:
            slot = self._slots.get(name)
            if slot is not None:
                slot.share = share
                return
            # A copy, because other threads iterate over the names.
            self._slots = {**self._slots, name: _Slot(share)}
            self._slots[name].virtual = self._now.get(share.priority, 0.0)

    def dismiss(self, name: str) -> None:
        """Removes a source's slot with its item."""
        with self._condition:
            self._slots = {n: slot for n, slot in self._slots.items() if n != name}
            self._condition.notify_all()

    def take(self, timeout_s: float, occupied_s: float = 0.0) -> Optional[Tuple[str, T]]:
        """(source, item) of the source whose turn it is, removed from its slot; None after the time-out or `wake`.

        Args:
            occupied_s: how long the item will keep others waiting.
        """
        with self._condition:
            name = self._next()
            if name is None:
                self._condition.wait(timeout_s)
                name = self._next()
            name = self._after_those_due(name, timeout_s, occupied_s)
            if name is None:
                return None
            slot = self._slots[name]
            item, slot.item, slot.full = slot.item, None, False
            slot.taken += 1
            self._charge(slot)
            self._condition.notify_all()
            return name, item

    def _next(self) -> Optional[str]:
        waiting = [(name, slot) for name, slot in self._slots.items() if slot.full]
        if not waiting:
            return None
        return min(waiting, key=lambda pair: (-pair[1].share.priority, pair[1].virtual))[0]

    def _after_those_due(self, name: Optional[str], timeout_s: float, occupied_s: float) -> Optional[str]:
        """Whose turn it is, after waiting for sources that should not wait behind a surplus item; None after the time-out."""
        if not occupied_s:
            return name
        deadline_s = self._clock() + timeout_s
        while name is not None:
            slot = self._slots[name]
            if not slot.floods:
                return name
            now_s = self._clock()
            others = [s for s in self._slots.values() if s is not slot and s.share.priority >= slot.share.priority]
            surplus = all(slot.virtual > s.virtual for s in others)
            until = [s.due(now_s, occupied_s) for s in others] if surplus else []
            waits = [u for u in until if u is not None]
            if not waits:
                return name
            if now_s >= deadline_s:
                return None
            self._condition.wait(min(max(waits), deadline_s) - now_s)
            name = self._next()
        return None

    def _charge(self, slot: _Slot) -> None:
        """Charges the slot for the frame that it got. Slots that fell far behind while they were empty are moved up."""
        level, step = slot.share.priority, 1.0 / slot.share.weight
        now = max(self._now.get(level, 0.0), slot.virtual)
        slot.virtual = max(slot.virtual, now - MOST_CREDIT * step) + step
        self._now[level] = now

    def wake(self) -> None:
        """Makes a waiting `take` return, so that its caller checks whether the sources ended."""
        with self._condition:
            self._condition.notify_all()

    def waiting(self, name: Optional[str] = None) -> bool:
        """Whether an item of the source (None: of any source) waits."""
        with self._condition:
            return any(s.full for n, s in self._slots.items() if name in (None, n))

    def dropped(self, name: str) -> int:
        slot = self._slots.get(name)
        return 0 if slot is None else slot.dropped

    def taken(self, name: str) -> int:
        slot = self._slots.get(name)
        return 0 if slot is None else slot.taken
