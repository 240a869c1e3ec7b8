"""A source in front of any number of models: its reader's frames are numbered, capped in rate and put into slots."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from edgedla.errors import EdgedlaError, RunError
from edgedla.runtime.frames import Frame
from edgedla.runtime.pipeline.slots import Share, Slots
from edgedla.runtime.sources.base import RateCap, Source
from edgedla.runtime.sources.reader import CaptureOptions, Reader

log = logging.getLogger("edgedla.runtime.pipeline.capture")


class Capture:
    """Owns the source, and fills its slot in front of each model that `feed` named.

    A live source overwrites a slot, so the reader always gets the newest frame and memory stays flat; the overwritten
    frame is counted as dropped. A file waits until the slot is free. A live source that breaks or stalls is closed and
    opened again, first after `backoff_first_s`, then ever later up to `backoff_most_s`. It may come back with frames of
    another size. A driver that never returns, again and again, ends the source: only a new process frees it.

    Args:
        name: of the source in a pipeline of several.
        max_rate: frames per second that are handed on, by the clock of what is seen; those between are skipped. Frames without
            such a clock are handed on so slowly, and none is skipped. 0: all of them.
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
        self.options = options or CaptureOptions()
        self.name, self.cap, self._patient = name, RateCap(max_rate), patient
        first = factory()
        self.uri, self.pixels = first.uri, first.pixels
        self._take_as(first)
        self.reader = Reader(first, factory, self.options, self, patient)
        self._readers: List[Tuple[Slots[Frame], int]] = []
        self._own_slots: Optional[Slots[Frame]] = None
        self._ended = False
        self._failure: Optional[EdgedlaError] = None
        #: time.monotonic() of the newest frame.
        self.last_frame_s: Optional[float] = None
        #: Of the next frame. One that stands in for another goes on counting where that one ended.
        self.index = 0
        self.frame_hw: Tuple[int, int] = (0, 0)
        self.rate = 0.0
        self.captured = self.skipped = 0

    def _take_as(self, source: Source) -> None:
        """A camera or a film; an address may turn out to be either when it is opened."""
        self.live = source.live
        #: Fakes of tests may lack it.
        self._recorded = getattr(source, "recorded", False)
        every = self.options.every_frame
        # Pictures without a rate have no pace at which they could be late.
        self.every_frame = (not self.live) if every is None or (self._recorded and not self.live) else every

    def feed(self, slots: Slots[Frame], every: int = 1) -> None:
        """Hands every `every`-th frame that the rate's cap lets through to the source's slot there. Call it before `start`."""
        if self.reader.started:
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
            self._own_slots = Slots({self.name: Share()})
            self.feed(self._own_slots)
        self.reader.begin()

    def await_open(self, wait_s: float = 20.0) -> None:
        """Waits for `begin`; raises as `start`."""
        if not self.reader.ready.wait(wait_s) and not (self._patient and self.live):
            self.stop()
            raise RunError(
                f"the source did not open within {wait_s:.0f} s", where=self.uri,
                hint="check that the address answers from this machine, for example with ffprobe",
            )  # fmt: skip
        # A failure after the first opening belongs to `take`.
        if self.failure is not None and self.frame_hw == (0, 0):
            raise self.failure
        self.reader.watch()

    def opened(self, frame_hw: Tuple[int, int], source: Source) -> None:
        if self.frame_hw not in ((0, 0), frame_hw):
            log.warning("%s: reopened; its frames are now %dx%d", self.uri, frame_hw[1], frame_hw[0])
        self.frame_hw, self.rate = frame_hw, source.rate
        self._take_as(source)

    def number(self, image: np.ndarray, source: Source) -> Optional[Frame]:
        """The image as the next frame; None where it comes sooner than the rate's cap allows."""
        now = self.last_frame_s = time.monotonic()
        index, self.index = self.index, self.index + 1
        self.captured += 1
        clock_s = self._clock_s(index, now)
        if clock_s is not None and self.cap.skips(clock_s):
            self.skipped += 1
            return None
        return Frame(index, image, now, getattr(source, "truth", None), time.time(), clock_s)

    def _clock_s(self, index: int, now_s: float) -> Optional[float]:
        """A film is read as fast as the models are, or as slowly: only its own clock tells what lies between two frames."""
        if self._recorded:
            return index / self.rate if self.rate else None
        return now_s if self.live else None

    def hand_on(self, frame: Frame) -> None:
        """Into the slots; with `every_frame` it waits for them to be free."""
        # Of those that pass the cap: with 30 frames per second, 10 of them let through, each third could be one of the others.
        number = frame.index - self.skipped
        for slots, every in self._readers:
            if number % every == 0:
                slots.put(self.name, frame, self.every_frame, self._given_up)
        if frame.clock_s is None:
            self.reader.rest(self.cap.rest_s(time.monotonic()))

    def _given_up(self) -> bool:
        """Asked while a file's frame waits for its slot: that is no stall."""
        self.reader.beat()
        return self.reader.stopped

    def finished(self, error: Optional[EdgedlaError]) -> None:
        self._failure, self._ended = error, error is None
        self._wake()

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

    @property
    def reconnects(self) -> int:
        return self.reader.reconnects

    @property
    def stalls(self) -> int:
        return self.reader.stalls

    def take(self, timeout_s: float = 0.5) -> Optional[Frame]:
        """The newest frame, removed from the slot; None if none came in time or the stream ended (see `ended`).

        For a capture that feeds no slots of others.

        Raises:
            RunError, EnvironmentMissing: the source failed for good.
        """
        assert self._own_slots is not None
        newest = self._own_slots.take(0.0 if self.over else timeout_s)
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
        self.reader.stop()
        self._wake()
        self.reader.join(wait_s)

    def to_dict(self) -> Dict[str, Any]:
        state = "failed" if self._failure is not None else "ended" if self._ended else "open"
        return {
            "name": self.name,
            "source": self.uri,
            "state": "opening" if state == "open" and self.reader.opening else state,
            "captured": self.captured,
            "skipped": self.skipped,
            "dropped": self.dropped,
            "reconnects": self.reconnects,
            "stalls": self.stalls,
            "outages": self.reader.outages.count,
            "outage_s": round(self.reader.outages.seconds, 3),
        }
