"""Reads a source on a thread of its own: newest frame first, drops counted, reconnect with backoff, watchdog on a stall."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from edgedla.errors import EdgedlaError, EnvironmentMissing, RunError, UsageError
from edgedla.runtime.frames import Frame
from edgedla.runtime.runners.base import describe
from edgedla.runtime.sources.base import Source

log = logging.getLogger("edgedla.runtime.pipeline.capture")


#: Opening may take so long before it counts as a stall: a network camera that is away is noticed by its time-out.
OPEN_S = 30.0
#: A source that gives frames for so long has recovered: the next failure is waited for from the first backoff on again.
RECOVERED_S = 10.0
#: So many threads may hang inside the driver at once. Each holds memory that only the end of the process gives back.
MOST_STUCK = 4


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
    opened again, first after `backoff_first_s`, then ever later up to `backoff_most_s`. It may come back with frames of
    another size. A driver that never returns, again and again, ends the run: only a new process frees it.
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
        self._opening = True
        self._source: Optional[Source] = None
        self._threads: List[threading.Thread] = []
        self._index = 0
        self.frame_hw: Tuple[int, int] = (0, 0)
        self.rate = 0.0
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
            self._beat, self._opening = time.monotonic(), True
            self._threads = [t for t in self._threads if t.is_alive()]
            thread = threading.Thread(
                target=self._run, args=(source, mine, ready), name=f"edgedla-capture-{mine}", daemon=True
            )
            self._threads.append(thread)
        thread.start()

    def _run(self, source: Optional[Source], mine: int, ready: Optional[threading.Event]) -> None:
        backoff, broken_since, good_since = self.options.backoff_first_s, 0.0, 0.0
        while not self._stop.is_set() and mine == self._generation:
            try:
                self._opening = True
                source = source or self._factory()
                self._source = source if mine == self._generation else self._source
                hw = source.open()
                if mine != self._generation:
                    return
                self.rate = source.rate
                self._opened(hw, ready)
                ready = None
                while not self._stop.is_set() and mine == self._generation:
                    image = source.read()
                    if image is None:
                        self._finish(mine)
                        return
                    _check_image(image, self.pixels, self.uri)
                    good_since, broken_since = good_since or time.monotonic(), 0.0
                    self._put(image, mine, source)
            except Exception as e:
                error = (
                    e if isinstance(e, EdgedlaError) else RunError(f"the source failed: {describe(e)}", where=self.uri)
                )
                # A source that is torn down to end the run is no failure.
                if mine != self._generation or self._stop.is_set():
                    return
                if ready is not None or not self._may_retry(error):
                    self._fail(error, mine, ready)
                    return
                broken_since = broken_since or time.monotonic()
                # One that breaks after its first frame, again and again, is not opened twice a second for months.
                if good_since and time.monotonic() - good_since > RECOVERED_S:
                    backoff = self.options.backoff_first_s
                good_since = 0.0
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
            log.warning("%s: it came back with frames of %dx%d", self.uri, hw[1], hw[0])
        self.frame_hw = hw
        self._beat, self._opening = time.monotonic(), False
        if ready is not None:
            ready.set()

    def _put(self, image: np.ndarray, mine: int, source: Source) -> None:
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
            self._slot = Frame(self._index, image, now, getattr(source, "truth", None), time.time())
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
                limit = max(OPEN_S, self.options.stall_s) if self._opening else self.options.stall_s
                stalled = self.live and time.monotonic() - self._beat > limit
                stuck, mine = sum(t.is_alive() for t in self._threads), self._generation
            if not stalled or not self.options.reconnect:
                continue
            self.stalls += 1
            if stuck >= MOST_STUCK:
                hint = "the camera or its driver hangs: a restart of the process, or of the camera, is needed"
                self._fail(
                    RunError(f"{stuck} reads of the source never returned", where=self.uri, hint=hint), mine, None
                )
                return
            log.warning("%s: no frame for %.1f s; opening it again", self.uri, limit)
            stuck_source = self._source
            self._spawn(None)
            _interrupt(stuck_source)

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

    def stop(self, wait_s: float = 0.0) -> None:
        """Ends reading; waits at most `wait_s` for the source to be closed (a read that hangs is left behind)."""
        self._stop.set()
        with self._condition:
            self._condition.notify_all()
            threads = list(self._threads)
        self._join(threads, wait_s / 2)
        if wait_s and any(t.is_alive() for t in threads):
            _interrupt(self._source)
            self._join(threads, wait_s / 2)

    def _join(self, threads: List[threading.Thread], wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        for t in threads:
            if t is not threading.current_thread():
                t.join(max(0.0, deadline - time.monotonic()))

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
        log.warning("closing the source: %s", describe(e))


def _interrupt(source: Optional[Source]) -> None:
    interrupt = getattr(source, "interrupt", None)
    if interrupt is not None:
        interrupt()


def _check_image(image: object, pixels: str, uri: str) -> None:
    """A frame that is none ends the read with a reason, before anything downstream trips over it."""
    shape: Tuple[int, ...] = getattr(image, "shape", ())
    good = len(shape) == 2 and shape[0] % 3 == 0 if pixels == "nv12" else len(shape) == 3 and shape[2] == 3
    if not good or getattr(image, "dtype", None) != np.uint8 or min(shape) < 1:
        found = f"{getattr(image, 'dtype', type(image).__name__)} {list(shape)}"
        raise RunError(f"the source gave {found}", where=uri, allowed=f"uint8 pixels, {pixels}")
