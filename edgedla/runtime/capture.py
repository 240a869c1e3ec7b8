"""Reads a source on a thread of its own: newest frame first, drops counted, reconnect with backoff, watchdog on a stall."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

from edgedla.errors import EdgedlaError, EnvironmentMissing, RunError, UsageError
from edgedla.runtime.frames import Frame
from edgedla.runtime.sources.base import Source

log = logging.getLogger("edgedla.runtime.capture")


@dataclass(frozen=True)
class CaptureOptions:
    """Seconds. `every_frame` waits for the reader instead of dropping (files by default)."""

    every_frame: Optional[bool] = None
    reconnect: bool = True
    backoff_first_s: float = 0.5
    backoff_most_s: float = 30.0
    stall_s: float = 5.0
    give_up_s: float = 0.0


class Capture:
    """Owns the source and a one-frame slot.

    A live source overwrites the slot, so the reader always gets the newest frame and memory stays flat; the overwritten
    frame is counted as dropped. A file waits until the slot is free. A live source that breaks or stalls is closed and
    opened again, first after `backoff_first_s`, then ever later up to `backoff_most_s`.
    """

    def __init__(self, factory: Callable[[], Source], options: Optional[CaptureOptions] = None) -> None:
        self._factory, self.options = factory, options or CaptureOptions()
        first = factory()
        self.uri, self.live, self.pixels = first.uri, first.live, first.pixels
        every = self.options.every_frame
        self.every_frame = (not self.live) if every is None else every
        self._first: Optional[Source] = first
        self._condition = threading.Condition()
        self._slot: Optional[Frame] = None
        self._ended = False
        self._failure: Optional[EdgedlaError] = None
        self._stop = threading.Event()
        self._generation = 0
        self._beat = time.monotonic()
        self._index = 0
        self.frame_hw: Tuple[int, int] = (0, 0)
        self.captured = self.dropped = self.reconnects = self.stalls = 0

    def start(self, wait_s: float = 20.0) -> None:
        """Opens the source and returns once its frame size is known.

        Raises:
            RunError, EnvironmentMissing: the source cannot be opened at all.
        """
        ready = threading.Event()
        self._spawn(self._first, ready)
        self._first = None
        if not ready.wait(wait_s):
            self.stop()
            raise RunError(f"the source did not open within {wait_s:.0f} s", where=self.uri)
        # A failure after the first opening belongs to `take`.
        if self._failure is not None and self.frame_hw == (0, 0):
            raise self._failure
        threading.Thread(target=self._watch, name="edgedla-watchdog", daemon=True).start()

    def _spawn(self, source: Optional[Source], ready: Optional[threading.Event] = None) -> None:
        with self._condition:
            self._generation += 1
            mine = self._generation
            self._beat = time.monotonic()
        threading.Thread(
            target=self._run, args=(source, mine, ready), name=f"edgedla-capture-{mine}", daemon=True
        ).start()

    def _run(self, source: Optional[Source], mine: int, ready: Optional[threading.Event]) -> None:
        backoff, broken_since = self.options.backoff_first_s, 0.0
        while not self._stop.is_set() and mine == self._generation:
            try:
                source = source or self._factory()
                hw = source.open()
                self._opened(hw, ready)
                ready = None
                while not self._stop.is_set() and mine == self._generation:
                    image = source.read()
                    if image is None:
                        self._finish(mine)
                        return
                    backoff, broken_since = self.options.backoff_first_s, 0.0
                    self._put(image, mine, source)
            except Exception as e:
                error = e if isinstance(e, EdgedlaError) else RunError(f"the source failed: {e!r}", where=self.uri)
                if ready is not None or not self._may_retry(error):
                    self._fail(error, mine, ready)
                    return
                broken_since = broken_since or time.monotonic()
                if self.options.give_up_s and time.monotonic() - broken_since > self.options.give_up_s:
                    self._fail(error, mine, None)
                    return
                self.reconnects += 1
                log.warning("%s: %s; opening again in %.1f s", self.uri, error.what, backoff)
                self._beat = time.monotonic() + backoff
                self._stop.wait(backoff)
                backoff = min(backoff * 2, self.options.backoff_most_s)
            finally:
                if source is not None:
                    _close(source)
                source = None

    def _may_retry(self, error: EdgedlaError) -> bool:
        return self.live and self.options.reconnect and not isinstance(error, (EnvironmentMissing, UsageError))

    def _opened(self, hw: Tuple[int, int], ready: Optional[threading.Event]) -> None:
        if self.frame_hw != (0, 0) and hw != self.frame_hw:
            raise RunError(
                f"the source came back with {hw[1]}x{hw[0]} frames", where=self.uri, allowed=str(self.frame_hw)
            )
        self.frame_hw = hw
        if ready is not None:
            ready.set()

    def _put(self, image: Any, mine: int, source: Source) -> None:
        now = time.monotonic()
        with self._condition:
            if mine != self._generation:
                return
            self._beat = now
            while self.every_frame and self._slot is not None and not self._stop.is_set():
                self._condition.wait(0.2)
                self._beat = time.monotonic()
            if self._slot is not None:
                self.dropped += 1
            self._slot = Frame(self._index, image, now, getattr(source, "truth", None))
            self._index += 1
            self.captured += 1
            self._condition.notify_all()

    def _finish(self, mine: int) -> None:
        with self._condition:
            if mine == self._generation:
                self._ended = True
                self._condition.notify_all()

    def _fail(self, error: EdgedlaError, mine: int, ready: Optional[threading.Event]) -> None:
        with self._condition:
            if mine == self._generation:
                self._failure = error
                self._condition.notify_all()
        if ready is not None:
            ready.set()

    def _watch(self) -> None:
        # A camera read blocks inside a driver and cannot be interrupted: the stalled thread is left behind (its frames are
        # ignored once the generation moved on) and a new one opens the source.
        while not self._stop.wait(min(0.25, self.options.stall_s / 4)):
            with self._condition:
                if self._ended or self._failure is not None:
                    return
                stalled = self.live and time.monotonic() - self._beat > self.options.stall_s
            if stalled and self.options.reconnect:
                self.stalls += 1
                log.warning("%s: no frame for %.1f s; opening it again", self.uri, self.options.stall_s)
                self._spawn(None)

    def take(self, timeout_s: float = 0.5) -> Optional[Frame]:
        """The newest frame, removed from the slot; None if none came in time or the stream ended (see `ended`).

        Raises:
            RunError, EnvironmentMissing: the source failed for good.
        """
        with self._condition:
            if self._slot is None and not self._ended and self._failure is None:
                self._condition.wait(timeout_s)
            frame, self._slot = self._slot, None
            if frame is not None:
                self._condition.notify_all()
                return frame
            if self._failure is not None:
                raise self._failure
            return None

    @property
    def ended(self) -> bool:
        """True once the stream ended and its last frame was taken."""
        with self._condition:
            return self._ended and self._slot is None

    def stop(self) -> None:
        self._stop.set()
        with self._condition:
            self._condition.notify_all()

    def to_dict(self) -> Dict[str, Any]:
        return {
            "source": self.uri,
            "captured": self.captured,
            "dropped": self.dropped,
            "reconnects": self.reconnects,
            "stalls": self.stalls,
        }


def _close(source: Source) -> None:
    try:
        source.close()
    except Exception as e:
        log.warning("closing the source: %r", e)
