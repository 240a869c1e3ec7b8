"""Reads a source on a separate thread; reopens it with backoff when it breaks, or when a read hangs."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Callable, List, Optional, Protocol, Tuple

import numpy as np

from edgedla.errors import DataError, EdgedlaError, EnvironmentMissing, RunError, UsageError, described
from edgedla.runtime.frames import Frame
from edgedla.runtime.outage import Outages
from edgedla.runtime.sources.base import CameraDenied, Source, check_image, interrupt

log = logging.getLogger("edgedla.runtime.sources.reader")

#: Opening may take this long before it counts as a stall: a missing network camera shows by its time-out.
OPEN_S = 30.0
#: A source that gives frames for this long has recovered: after the next failure the backoff starts from its first value.
RECOVERED_S = 10.0
#: Most threads that may hang inside the driver. Each holds memory that only the end of the process frees.
MOST_STUCK = 4


@dataclass(frozen=True)
class CaptureOptions:
    """How to read a source, and what to do when it breaks.

    Attributes:
        every_frame: true waits for a free runner instead of dropping frames. Default: true for files and folders without `rate`.
            With false a film plays at its own rate, and late frames are dropped.
        reconnect: reopen a source that breaks, first after `backoff_first_s` seconds, then each time after twice as long, at
            most `backoff_most_s`.
        stall_s: seconds without a frame after which the source is reopened.
        give_up_s: seconds without the source after which the run ends; 0: never.
    """

    every_frame: Optional[bool] = None
    reconnect: bool = True
    backoff_first_s: float = 0.5
    backoff_most_s: float = 30.0
    stall_s: float = 5.0
    give_up_s: float = 0.0


class FrameHandler(Protocol):
    """Receives a reader's frames and events, on the reader's thread. Abandoned threads call nothing."""

    def opened(self, frame_hw: Tuple[int, int], source: Source) -> None:
        """The source was opened. Only now its kind is known: an address may be a film's."""
        ...

    def number(self, image: np.ndarray, source: Source) -> Optional[Frame]:
        """Makes the image a numbered frame; None if it is skipped. Called under the reader's lock."""
        ...

    def hand_on(self, frame: Frame) -> None:
        """Passes the frame on. May wait until somebody takes it, and then calls the reader's `beat` meanwhile."""
        ...

    def finished(self, error: Optional[EdgedlaError]) -> None:
        """There are no more frames: the stream ended (None), or failed for good."""
        ...


class _Backoff:
    """How long to wait before a broken source is reopened, and since when it is broken."""

    def __init__(self, options: CaptureOptions) -> None:
        self._options, self._next_s = options, options.backoff_first_s
        self._broken_since_s = self._good_since_s = 0.0

    def good(self) -> None:
        """A frame arrived."""
        self._good_since_s, self._broken_since_s = self._good_since_s or time.monotonic(), 0.0

    def broken(self) -> Optional[float]:
        """Seconds to wait; None if it is time to give up."""
        now = time.monotonic()
        self._broken_since_s = self._broken_since_s or now
        # A source that always breaks after its first frame must not be reopened twice per second for months.
        if self._good_since_s and now - self._good_since_s > RECOVERED_S:
            self._next_s = self._options.backoff_first_s
        self._good_since_s = 0.0
        if self._options.give_up_s and now - self._broken_since_s > self._options.give_up_s:
            return None
        wait_s, self._next_s = self._next_s, min(self._next_s * 2, self._options.backoff_most_s)
        return wait_s


class Reader:
    """The threads that read one source, one after the other.

    A read blocks inside a driver and cannot be interrupted. A watchdog therefore abandons a stalled thread (the generation
    number makes its frames ignored), and a new thread opens the source.

    Args:
        first: the first source, not opened; `factory` makes later ones.
        patient: retry a live source that cannot be opened at the start, as one that broke.
        name: the source's, before its address in the log: two cameras may have one address.
    """

    def __init__(
        self,
        first: Source,
        factory: Callable[[], Source],
        options: CaptureOptions,
        handler: FrameHandler,
        patient: bool,
        name: str = "",
    ) -> None:
        self._first: Optional[Source] = first
        self.uri = f"{name} ({first.uri})" if name else first.uri
        self.live = first.live
        self._factory, self._options, self._handler, self._patient = factory, options, handler, patient
        self._lock = threading.Lock()
        self._stop, self._ended = threading.Event(), threading.Event()
        #: Set once the source was opened, or could not be opened, for the first time.
        self.ready = threading.Event()
        self._generation = 0
        self._beat_s = time.monotonic()
        self.opening = True
        self._source: Optional[Source] = None
        self._empty = True
        self._threads: List[threading.Thread] = []
        self.reconnects = self.stalls = 0
        self.outages = Outages(self.uri)

    @property
    def started(self) -> bool:
        return self._first is None

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def begin(self) -> None:
        """Starts to open the source."""
        first, self._first = self._first, None
        self._spawn(first)

    def watch(self) -> None:
        """Starts the watchdog."""
        threading.Thread(target=self._watch, name="edgedla-watchdog", daemon=True).start()

    def beat(self) -> None:
        """Tells the watchdog that the source works: it gave a frame, or waits for somebody to take one."""
        self._beat_s = time.monotonic()

    def _current(self, generation: int) -> bool:
        """False for an abandoned thread, and after a stop."""
        return generation == self._generation and not self._stop.is_set()

    def _spawn(self, source: Optional[Source]) -> None:
        with self._lock:
            self._generation += 1
            generation = self._generation
            self._beat_s, self.opening = time.monotonic(), True
            self._threads = [t for t in self._threads if t.is_alive()]
            thread = threading.Thread(
                target=self._run, args=(source, generation), name=f"edgedla-capture-{generation}", daemon=True
            )
            # Before it is kept: the system may refuse another thread, and one that never began cannot be joined.
            thread.start()
            self._threads.append(thread)

    def _run(self, source: Optional[Source], generation: int) -> None:
        backoff = _Backoff(self._options)
        while self._current(generation):
            try:
                self.opening = True
                source = source or self._factory()
                self._source = source if generation == self._generation else self._source
                self._read(source, generation, backoff)
                return
            except Exception as e:
                wait_s = self._failed(e, generation, backoff)
                if wait_s is None:
                    return
                self._stop.wait(wait_s)
            finally:
                if source is not None:
                    _close(source)
                source = None

    def _failed(self, e: Exception, generation: int, backoff: _Backoff) -> Optional[float]:
        """Seconds to wait before the source is reopened; None if this thread is finished.

        `_run` keeps no name for the error: an error holds its stack frames, and so the half-read image. A name in one of them
        makes a reference cycle, which lives until the next garbage collection: hours in an idle process.
        """
        error = e if isinstance(e, EdgedlaError) else RunError(f"the source failed: {described(e)}", where=self.uri)
        # Closing a source to end the run is no failure.
        if not self._current(generation):
            return None
        wait_s = backoff.broken() if self._may_retry(error) else None
        if wait_s is not None and isinstance(error, CameraDenied):
            wait_s = max(wait_s, CameraDenied.PAUSE_S)
        if wait_s is None:
            self._over(error, generation)
            return None
        self.ready.set()
        self.reconnects += 1
        denied = f" ({error.hint}; asked again in {wait_s:.0f} s)" if isinstance(error, CameraDenied) else ""
        self.outages.failed(error.what + denied, wait_s)
        self._beat_s = time.monotonic() + wait_s
        return wait_s

    def _read(self, source: Source, generation: int, backoff: _Backoff) -> None:
        """Opens the source and passes its frames on until it ends; raises if it fails."""
        hw = source.open()
        if generation != self._generation:
            return
        self.live = source.live
        self._handler.opened(hw, source)
        self._beat_s, self.opening = time.monotonic(), False
        self.ready.set()
        while self._current(generation):
            image = source.read()
            if image is None:
                self._over(_no_frame(source) if self._empty and not self.stopped else None, generation)
                return
            self._empty = False
            check_image(image, source.pixels, self.uri)
            backoff.good()
            with self._lock:
                # After a stop another capture may have replaced this one.
                if not self._current(generation):
                    return
                self.beat()
                self.outages.frame()
                frame = self._handler.number(image, source)
            if frame is not None:
                self._handler.hand_on(frame)

    def _may_retry(self, error: EdgedlaError) -> bool:
        if not self.ready.is_set() and not self._patient:
            return False
        return self.live and self._options.reconnect and not isinstance(error, (EnvironmentMissing, UsageError))

    def _over(self, error: Optional[EdgedlaError], generation: int) -> None:
        with self._lock:
            if generation != self._generation:
                return
            self._ended.set()
        self._handler.finished(error)
        self.ready.set()

    def _watch(self) -> None:
        while not self._stop.wait(min(0.25, self._options.stall_s / 4)):
            if self._ended.is_set():
                return
            with self._lock:
                limit_s = max(OPEN_S, self._options.stall_s) if self.opening else self._options.stall_s
                stalled = self.live and time.monotonic() - self._beat_s > limit_s
                stuck, generation = sum(t.is_alive() for t in self._threads), self._generation
            if not stalled or not self._options.reconnect:
                continue
            self.stalls += 1
            if stuck >= MOST_STUCK:
                hint = "the camera or its driver hangs: restart the process, or the camera"
                what = f"{stuck} reads from the source never returned"
                self._over(RunError(what, where=self.uri, hint=hint), generation)
                return
            self.outages.failed(f"no frame for {limit_s:.1f} s")
            stuck_source = self._source
            self._spawn(None)
            interrupt(stuck_source)

    def rest(self, seconds: float) -> None:
        """Waits this long, or until a stop."""
        self._stop.wait(seconds)

    def stop(self) -> None:
        self._stop.set()

    def join(self, wait_s: float) -> None:
        """Waits for the source to be closed. A hanging read is interrupted after half of the time, then abandoned."""
        with self._lock:
            threads = [t for t in self._threads if t is not threading.current_thread()]
        _join(threads, wait_s / 2)
        if wait_s and any(t.is_alive() for t in threads):
            interrupt(self._source)
            _join(threads, wait_s / 2)


def _no_frame(source: Source) -> EdgedlaError:
    """An empty film looks like a finished run, and so does one whose frames the decoder cannot read."""
    if getattr(source, "recorded", False):
        hint = "check that the file holds a video, and that this OpenCV knows its codec"
        return DataError("it ends without a frame", where=source.uri, hint=hint)
    return RunError("it ends without a frame", where=source.uri, hint="try the pipeline with gst-launch-1.0")


def _join(threads: List[threading.Thread], wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    for t in threads:
        t.join(max(0.0, deadline - time.monotonic()))


def _close(source: Source) -> None:
    try:
        source.close()
    except Exception as e:
        log.warning("%s: closing the source: %s", source.uri, described(e))
