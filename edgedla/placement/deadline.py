"""Time limits of searches: processor time, so that a busy machine changes no answer, and a wider bound of wall time."""

from __future__ import annotations

import time
from typing import NamedTuple

INFINITY = float("inf")

#: Wall seconds per second of a limit. On two cores that eight programs share, a second of processor time takes four.
WALL = 6.0

#: Share of the time left that a search may take which only prepares another one: an order of items, a start, a bound. Most end by
#: themselves long before; the share is for large networks and slow machines.
PREPARING = 0.25


class Moment(NamedTuple):
    """Seconds on time.thread_time's clock, and on time.monotonic's.

    The thread's own time, because numpy's threads for products of matrices would use up a limit sooner on more cores.
    """

    cpu_s: float
    wall_s: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.thread_time(), time.monotonic())


class Deadline(NamedTuple):
    """The end of a search: of its processor time, or of its wall time if that comes first."""

    end: Moment
    began: Moment

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        now = Moment.now()
        return cls(Moment(now.cpu_s + seconds, now.wall_s + WALL * seconds), now)

    @property
    def left_s(self) -> float:
        """Seconds of processor time left, below zero after the end; fewer where the wall time ends first."""
        now = Moment.now()
        return min(self.end.cpu_s - now.cpu_s, (self.end.wall_s - now.wall_s) / WALL)

    @property
    def left_wall_s(self) -> float:
        """Wall seconds in which `left_s` pass, if the thread goes on getting its share of a processor so far."""
        now = Moment.now()
        stretch = (now.wall_s - self.began.wall_s) / max(now.cpu_s - self.began.cpu_s, 1e-3)
        return self.left_s * min(max(stretch, 1.0), WALL)

    @property
    def passed(self) -> bool:
        return self.left_s < 0

    def part(self, share: float) -> Deadline:
        """The end of the next such share of the time left."""
        return self.within(share * self.left_s)

    @property
    def to_prepare(self) -> Deadline:
        """The end of what only prepares another search."""
        return self.part(PREPARING)

    def within(self, seconds: float) -> Deadline:
        """The end of the next seconds, or this one if it is earlier."""
        soon = Deadline.after(seconds).end
        end = Moment(min(self.end.cpu_s, soon.cpu_s), min(self.end.wall_s, soon.wall_s))
        return self._replace(end=end)

    def later(self, seconds: float) -> Deadline:
        return self._replace(end=Moment(self.end.cpu_s + seconds, self.end.wall_s + WALL * seconds))


NEVER = Deadline(Moment(INFINITY, INFINITY), Moment(0.0, 0.0))


class Stopwatch:
    """Seconds of processor time since it was made."""

    def __init__(self) -> None:
        self._began = time.thread_time()

    @property
    def seconds(self) -> float:
        return time.thread_time() - self._began
