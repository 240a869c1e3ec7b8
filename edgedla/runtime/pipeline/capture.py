"""Reads a source on a thread of its own for any number of models: rate cap, reconnect with backoff, watchdog on a stall."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from edgedla.errors import EdgedlaError, EnvironmentMissing, RunError, UsageError
from edgedla.runtime.frames import Frame
from edgedla.runtime.outage import Outages
from edgedla.runtime.pipeline.slots import Share, Slots
from edgedla.runtime.runners.base import describe
from edgedla.runtime.sources.base import RateCap, Source, check_image, interrupt

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
    """Owns the source, and fills its slot in front of each model that `feed` named.

    A live source overwrites a slot, so the reader always gets the newest frame and memory stays flat; the overwritten
    frame is counted as dropped. A file waits until the slot is free. A live source that breaks or stalls is closed and
    opened again, first after `backoff_first_s`, then ever later up to `backoff_most_s`. It may come back with frames of
    another size. A driver that never returns, again and again, ends the source: only a new process frees it.

    Args:
        name: of the source in a pipeline of several.
        max_rate: frames per second that are handed on; those between are skipped. 0: all of them.
        patient: a live source that cannot be opened at the start is tried again, as one that broke.
    """

    def __init__(
        self,
        factory: Callable[[], Source],
        options: Optional[CaptureOptions] = None,
        name: str = "",
        max_rate: float = 0.0,
        patient: bool = False,
    ) -> None:
        self._factory, self.options = factory, options or CaptureOptions()
        self.name, self.cap, self._patient = name, RateCap(max_rate), patient
        first = factory()
        self.uri, self.live, self.pixels = first.uri, first.live, first.pixels
        every = self.options.every_frame
        self.every_frame = (not self.live) if every is None else every
        self._first: Optional[Source] = first
        self._condition = threading.Condition()
        self._readers: List[Tuple[Slots[Frame], int]] = []
        self._own: Optional[Slots[Frame]] = None
        self._ready = threading.Event()
        self._ended = False
        self._failure: Optional[EdgedlaError] = None
        self._stop = threading.Event()
        self._generation = 0
        self._beat = time.monotonic()
        #: time.monotonic() of the newest frame.
        self.last_frame_s: Optional[float] = None
        self._opening = True
        self._source: Optional[Source] = None
        self._threads: List[threading.Thread] = []
        #: Of the next frame. One that stands in for another goes on counting where that one ended.
        self.index = 0
        self.frame_hw: Tuple[int, int] = (0, 0)
        self.rate = 0.0
        self.captured = self.skipped = self.reconnects = self.stalls = 0
        self.outages = Outages(self.uri)

    def feed(self, slots: Slots[Frame], every: int = 1) -> None:
        """Hands every `every`-th frame to the source's slot there. Call it before `start`."""
        if self._first is None:
            raise RunError("the source has been started already", where=self.uri, hint="make the pipeline first")
        self._readers.append((slots, max(1, every)))

    def start(self, wait_s: float = 20.0) -> None:
        """Opens the source and returns once its frame size is known, or, of a patient one, once it refused.

        Raises:
            RunError, EnvironmentMissing: the source cannot be opened at all.
        """
        self.begin()
        self.await_open(wait_s)

    def begin(self) -> None:
        """Starts to open the source."""
        if not self._readers:
            self._own = Slots({self.name: Share()})
            self.feed(self._own)
        self._spawn(self._first, self._ready)
        self._first = None

    def await_open(self, wait_s: float = 20.0) -> None:
        """Waits for `begin`; raises as `start`."""
        if not self._ready.wait(wait_s) and not (self._patient and self.live):
            self.stop()
            raise RunError(f"the source did not open within {wait_s:.0f} s", where=self.uri)
        # A failure after the first opening belongs to `take`.
        if self.failure is not None and self.frame_hw == (0, 0):
            raise self.failure
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
                    check_image(image, self.pixels, self.uri)
                    good_since, broken_since = good_since or time.monotonic(), 0.0
                    self._put(image, mine, source)
            except Exception as e:
                error = (
                    e if isinstance(e, EdgedlaError) else RunError(f"the source failed: {describe(e)}", where=self.uri)
                )
                # A source that is torn down to end the run is no failure.
                if mine != self._generation or self._stop.is_set():
                    return
                if (ready is not None and not self._patient) or not self._may_retry(error):
                    self._fail(error, mine, ready)
                    return
                if ready is not None:
                    ready.set()
                broken_since = broken_since or time.monotonic()
                # One that breaks after its first frame, again and again, is not opened twice a second for months.
                if good_since and time.monotonic() - good_since > RECOVERED_S:
                    backoff = self.options.backoff_first_s
                good_since = 0.0
                if self.options.give_up_s and time.monotonic() - broken_since > self.options.give_up_s:
                    self._fail(error, mine, None)
                    return
                self.reconnects += 1
                self.outages.failed(error.what, backoff)
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
            # After a stop another capture may stand in its place.
            if mine != self._generation or self._stop.is_set():
                return
            self._beat = self.last_frame_s = now
            frame = Frame(self.index, image, now, getattr(source, "truth", None), time.time())
            self.index += 1
            self.captured += 1
            self.outages.frame()
            if self.cap.skips(now):
                self.skipped += 1
                return
        for slots, every in self._readers:
            if frame.index % every == 0:
                slots.put(self.name, frame, self.every_frame, self._given_up)

    def _given_up(self) -> bool:
        """Asked while a file's frame waits for its slot: that is no stall."""
        self._beat = time.monotonic()
        return self._stop.is_set()

    @property
    def dropped(self) -> int:
        """Frames that a newer one replaced before a model took them, over all models."""
        return sum(slots.dropped(self.name) for slots, _ in self._readers)

    @property
    def failure(self) -> Optional[EdgedlaError]:
        """Why the source ended for good; None while it lives, and where it came to its end."""
        return self._failure

    @property
    def over(self) -> bool:
        """True where no further frame will come; some may wait in slots still."""
        return self._ended or self._failure is not None

    def _wake(self) -> None:
        for slots, _ in self._readers:
            slots.wake()

    def _finish(self, mine: int) -> None:
        with self._condition:
            if mine == self._generation:
                self._ended = True
        self._wake()

    def _fail(self, error: EdgedlaError, mine: int, ready: Optional[threading.Event]) -> None:
        with self._condition:
            if mine == self._generation:
                self._failure = error
        self._wake()
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
                    RunError(f"{stuck} reads from the source never returned", where=self.uri, hint=hint), mine, None
                )
                return
            self.outages.failed(f"no frame for {limit:.1f} s")
            stuck_source = self._source
            self._spawn(None)
            interrupt(stuck_source)

    def take(self, timeout_s: float = 0.5) -> Optional[Frame]:
        """The newest frame, removed from the slot; None if none came in time or the stream ended (see `ended`).

        For a capture that feeds no slots of others.

        Raises:
            RunError, EnvironmentMissing: the source failed for good.
        """
        assert self._own is not None
        newest = self._own.take(0.0 if self.over else timeout_s)
        if newest is not None:
            return newest[1]
        if self._failure is not None:
            raise self._failure
        return None

    @property
    def ended(self) -> bool:
        """True once the stream ended and its last frame was taken."""
        return self._ended and not any(slots.waiting(self.name) for slots, _ in self._readers)

    def stop(self, wait_s: float = 0.0) -> None:
        """Ends reading; waits at most `wait_s` for the source to be closed (a read that hangs is left behind)."""
        self._stop.set()
        self._wake()
        with self._condition:
            threads = list(self._threads)
        self._join(threads, wait_s / 2)
        if wait_s and any(t.is_alive() for t in threads):
            interrupt(self._source)
            self._join(threads, wait_s / 2)

    def _join(self, threads: List[threading.Thread], wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        for t in threads:
            if t is not threading.current_thread():
                t.join(max(0.0, deadline - time.monotonic()))

    def to_dict(self) -> Dict[str, Any]:
        state = "failed" if self._failure is not None else "ended" if self._ended else "open"
        return {
            "name": self.name,
            "source": self.uri,
            "state": "opening" if state == "open" and self._opening else state,
            "captured": self.captured,
            "skipped": self.skipped,
            "dropped": self.dropped,
            "reconnects": self.reconnects,
            "stalls": self.stalls,
            "outages": self.outages.count,
            "outage_s": round(self.outages.seconds, 3),
        }


def _close(source: Source) -> None:
    try:
        source.close()
    except Exception as e:
        log.warning("closing the source: %s", describe(e))
