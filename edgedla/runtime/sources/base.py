"""What every frame source offers."""

from __future__ import annotations

import time
from typing import Optional, Protocol, Tuple

import numpy as np

from edgedla.errors import RunError


class Source(Protocol):
    """A place frames come from. One thread opens it, reads it and closes it.

    A source may have `interrupt()`, called from another thread, which makes a `read` that hangs come back.

    Attributes:
        uri: what the user wrote.
        live: True for cameras and streams, whose frames are lost if nobody reads them; False for files.
        recorded: True for films and folders of pictures, whose n-th frame belongs n / rate seconds after the first.
        pixels: bgr, rgb or nv12.
        rate: frames per second where known, else 0.
    """

    uri: str
    live: bool
    recorded: bool
    pixels: str
    rate: float

    def open(self) -> Tuple[int, int]:
        """Opens it and returns the frame size (h, w).

        Raises:
            RunError: it is not there or refuses. EnvironmentMissing: a library for it is missing.
        """
        ...

    def read(self) -> Optional[np.ndarray]:
        """The next frame, or None at the end of the stream. Blocks until a frame is there.

        Raises:
            RunError: the source broke; the reader may open it again.
        """
        ...

    def close(self) -> None: ...


#: Above it a rate is a unit of time that some cameras and films report (1000, 90000), and no rate.
MOST_RATE = 240


class Pace:
    """Holds frames back to a rate (frames per second, 0: not at all), as a camera would."""

    def __init__(self, rate: float) -> None:
        self._rate, self._start, self._count = rate, 0.0, 0

    def start(self) -> None:
        self._start, self._count = time.monotonic(), 0

    def wait(self) -> None:
        """Returns when the next frame is due."""
        if self._rate:
            due = self._start + self._count / self._rate - time.monotonic()
            if due > 0:
                time.sleep(due)
        self._count += 1


class RateCap:
    """Thins out frames to at most `rate` of them a second; 0: none is held back."""

    def __init__(self, rate: float) -> None:
        self.rate, self._due_s = rate, 0.0

    def skips(self, now_s: float) -> bool:
        """True where the frame of this time comes sooner than the cap allows."""
        if not self.rate:
            return False
        period_s = 1 / self.rate
        # A camera's jitter: a frame that is a little early is on time.
        if now_s < self._due_s - period_s * 0.05:
            return True
        # The schedule holds the mean rate; after a pause no burst makes up for it.
        self._due_s = max(self._due_s, now_s - period_s / 2) + period_s
        return False

    def rest_s(self, now_s: float) -> float:
        """How long the frame after that of this time is to wait, where none is skipped."""
        if not self.rate:
            return 0.0
        period_s = 1 / self.rate
        self._due_s = max(self._due_s or now_s, now_s - period_s) + period_s
        return self._due_s - now_s


def check_image(image: object, pixels: str, uri: str) -> None:
    """Raises RunError for what is no frame of `pixels`, before anything downstream trips over it."""
    shape: Tuple[int, ...] = getattr(image, "shape", ())
    good = len(shape) == 2 and shape[0] % 3 == 0 if pixels == "nv12" else len(shape) == 3 and shape[2] == 3
    if not good or getattr(image, "dtype", None) != np.uint8 or min(shape) < 1:
        given = f"{getattr(image, 'dtype', type(image).__name__)} {list(shape)}"
        raise RunError(f"the source gave {given}", where=uri, allowed=f"uint8 pixels, {pixels}")


def interrupt(source: Optional[Source]) -> None:
    """Ends a read that hangs, where the source has a way to."""
    end = getattr(source, "interrupt", None)
    if end is not None:
        end()
