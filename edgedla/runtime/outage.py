"""Outages of a source: each is reported once at its start and once at its end, however often reopening fails meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable

log = logging.getLogger("edgedla.runtime.outage")


class Outages:
    """Counts the outages of one source. An outage begins with the first failure and ends with the first frame after it.

    Attributes:
        count: outages that have begun.
        why: the latest failure of the present outage; empty while frames come.
    """

    def __init__(self, where: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        self._where, self._clock, self._lock = where, clock, threading.Lock()
        self._began_s = self._ended_s = 0.0
        self._attempts = 0
        self._open = False
        self.why = ""

    def failed(self, what: str, again_in_s: float = 0.0) -> None:
        """The source failed or stalled. The first failure is logged, further ones are counted."""
        with self._lock:
            self._attempts += 1
            self.why = what
            if self._open:
                log.debug("%s: %s; attempt %d in %.1f s", self._where, what, self._attempts, again_in_s)
                return
            self._open, self._began_s = True, self._clock()
            self.count += 1
        log.warning("%s: %s; edgedla reopens the source until frames come", self._where, what)

    def frame(self) -> None:
        """A frame came."""
        if not self._open:
            return
        with self._lock:
            if not self._open:
                return
            self._open, lasted, self.why = False, self._clock() - self._began_s, ""
            self._ended_s += lasted
            attempts, self._attempts = self._attempts, 0
        log.warning(
            "%s: frames again after %s without (%d attempt%s)", self._where, length(lasted), attempts, "s" * (attempts != 1)
        )

    @property
    def seconds(self) -> float:
        """Total length of all outages, including the present one."""
        with self._lock:
            return self._ended_s + (self._clock() - self._began_s if self._open else 0.0)


def length(seconds: float) -> str:
    """ "4.2 s", "3 min 20 s" or "2 h 5 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
