"""Capture: numbers a source's frames, limits their rate, and puts them into the slots of its models."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from edgedla.errors import EdgedlaError, RunError
from edgedla.runtime.frames import Frame
from edgedla.runtime.pipeline.slots import Slots
from edgedla.runtime.sources.base import RateCap, Source
from edgedla.runtime.sources.reader import CaptureOptions, Reader
from edgedla.text.addresses import without_secrets

log = logging.getLogger("edgedla.runtime.pipeline.capture")


class Capture:
    """Owns a source, and fills the source's slot of each model that `feed` adds.

    A live source overwrites its slot, so the model always gets the newest frame and memory stays constant; an overwritten
    frame counts as dropped. A file waits until the slot is free. A live source that breaks or stalls is closed and
    reopened, first after `backoff_first_s`, then after growing pauses up to `backoff_most_s`. Its frames may then have
    another size. If its driver hangs again and again, the source ends: only a new process frees the driver.

    Args:
        name: name of the source in a pipeline of several.
        max_rate: maximum frames per second to pass on; frames in between are skipped. For a film it counts the film's seconds.
            Frames without such a clock are delayed, and none is skipped. 0: all frames.
        patient: retry a live source that cannot be opened at the start, as one that broke.
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
        self.reader = Reader(first, factory, self.options, self, patient, name)
        self._readers: List[Tuple[Slots[Frame], int]] = []
        self._ended = False
        #: Why the source failed for good; None while it runs, and after a normal end.
        self.failure: Optional[EdgedlaError] = None
        #: time.monotonic() of the newest frame.
        self.last_frame_s: Optional[float] = None
        #: Number of the next frame. A capture that replaces another continues its count.
        self.index = 0
        self.frame_hw: Tuple[int, int] = (0, 0)
        self.rate = 0.0
        self.captured = self.skipped = 0

    def _take_as(self, source: Source) -> None:
        """Treats the source as camera or film, which for an address is known only once it is open."""
        self.live = source.live
        #: Test doubles may lack it.
        self._recorded = getattr(source, "recorded", False)
        every = self.options.every_frame
        # Pictures without a rate cannot be late.
        self.every_frame = (not self.live) if every is None or (self._recorded and not self.live) else every

    def feed(self, slots: Slots[Frame], every: int = 1) -> None:
        """Adds a model's slots: passes every `every`-th frame, counted after `max_rate`, to them. Call it before `start`."""
        if self.reader.started:
            raise RunError("the source has been started already", where=self.uri, hint="make the pipeline first")
        self._readers.append((slots, max(1, every)))

    def start(self, wait_s: float = 20.0) -> None:
        """Opens the source and returns once its frame size is known; with `patient` also once it could not be opened.

        Raises:
            RunError, EnvironmentMissing: the source cannot be opened at all.
        """
        self.begin()
        self.await_open(wait_s)

    def begin(self) -> None:
        """Starts to open the source."""
        self.reader.begin()

    def await_open(self, wait_s: float = 20.0) -> None:
        """Waits for `begin`; raises as `start`."""
        if not self.reader.ready.wait(wait_s) and not (self._patient and self.live):
            self.stop()
            raise RunError(
                f"the source did not open within {wait_s:.0f} s",
                where=self.reader.uri,
                hint="check that the address answers from this machine, for example with ffprobe",
            )
        # Later failures are the pipeline's to tell.
        if self.failure is not None and self.frame_hw == (0, 0):
            raise self.failure
        self.reader.watch()

    def opened(self, frame_hw: Tuple[int, int], source: Source) -> None:
        if self.frame_hw not in ((0, 0), frame_hw):
            log.warning("%s: reopened; its frames are now %dx%d", self.reader.uri, frame_hw[1], frame_hw[0])
        self.frame_hw, self.rate, self.pixels = frame_hw, source.rate, source.pixels
        self._take_as(source)

    def number(self, image: np.ndarray, source: Source) -> Optional[Frame]:
        """The image as the next frame; None if `max_rate` skips it."""
        now = self.last_frame_s = time.monotonic()
        index, self.index = self.index, self.index + 1
        self.captured += 1
        clock_s = self._clock_s(index, now)
        if clock_s is not None and self.cap.skips(clock_s):
            self.skipped += 1
            return None
        return Frame(index, image, now, getattr(source, "truth", None), _stamp_s(source), clock_s, source.pixels)

    def _clock_s(self, index: int, now_s: float) -> Optional[float]:
        """Time of a frame in seconds. A film is read as fast as the models run, so only its own clock tells the time between frames."""
        if self._recorded:
            return index / self.rate if self.rate else None
        return now_s if self.live else None

    def hand_on(self, frame: Frame) -> None:
        """Puts the frame into the slots; with `every_frame` it waits until they are free."""
        # `every` counts frames after `max_rate`: of 30 frames per second with 10 passed on, every third could be a skipped one.
        number = frame.index - self.skipped
        for slots, every in self._readers:
            if number % every == 0:
                slots.put(self.name, frame, self.every_frame, self._given_up)
        if frame.clock_s is None:
            self.reader.rest(self.cap.rest_s(time.monotonic()))

    def _given_up(self) -> bool:
        """Whether to stop waiting for a free slot. Also tells the watchdog that this wait is no stall."""
        self.reader.beat()
        return self.reader.stopped

    def finished(self, error: Optional[EdgedlaError]) -> None:
        self.failure, self._ended = error, error is None
        self._wake()

    @property
    def dropped(self) -> int:
        """Frames that a newer one replaced before a model took them, over all models."""
        return sum(slots.dropped(self.name) for slots, _ in self._readers)

    @property
    def taken(self) -> int:
        """Frames that models took, over all models."""
        return sum(slots.taken(self.name) for slots, _ in self._readers)

    @property
    def over(self) -> bool:
        """Whether no more frames will come; some may still wait in slots."""
        return self._ended or self.failure is not None

    def _wake(self) -> None:
        for slots, _ in self._readers:
            slots.wake()

    def stop(self, wait_s: float = 0.0) -> None:
        """Ends reading; waits at most `wait_s` for the source to be closed (a hanging read is abandoned)."""
        self.reader.stop()
        self._wake()
        self.reader.join(wait_s)

    def to_dict(self) -> Dict[str, Any]:
        state = "failed" if self.failure is not None else "ended" if self._ended else "open"
        last_s, why = self.last_frame_s, self.reader.outages.why
        return {
            "name": self.name,
            "source": self.uri,
            "state": "opening" if state == "open" and self.reader.opening else state,
            "live": self.live,
            "last_frame_age_s": None if last_s is None else round(time.monotonic() - last_s, 3),
            "why": without_secrets(why if self.failure is None else self.failure.what),
            "captured": self.captured,
            "skipped": self.skipped,
            "dropped": self.dropped,
            "reconnects": self.reader.reconnects,
            "stalls": self.reader.stalls,
            "outages": self.reader.outages.count,
            "outage_s": round(self.reader.outages.seconds, 3),
        }


def _stamp_s(source: Source) -> float:
    """When the frame was captured, in seconds since 1970: by the source where it knows, else now."""
    stamp_s = getattr(source, "stamp_s", None)
    return time.time() if stamp_s is None else float(stamp_s)
