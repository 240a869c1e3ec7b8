"""Source: the interface of every frame source; and pacing of frames."""

from __future__ import annotations

import time
from typing import Optional, Protocol, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.preprocess.yuv import NV12


class Source(Protocol):
    """Gives frames. One thread opens it, reads it and closes it.

    A source may have `interrupt()`, for another thread, which makes a hanging `read` return.

    Attributes:
        uri: what the user wrote.
        live: True for cameras and streams, whose frames are lost if they are not read in time; False for files.
        recorded: True for films and folders of pictures: frame n is n / rate seconds after the first.
        pixels: bgr, rgb or a kind of NV12 (see preprocess/yuv.py); known once it is open.
        rate: frames per second; 0 if unknown.
    """

    uri: str
    live: bool
    recorded: bool
    pixels: str
    rate: float

    def open(self) -> Tuple[int, int]:
        """Opens the source and returns the frame size (h, w).

        Raises:
            RunError: the source is missing or refuses. EnvironmentMissing: a library for it is missing.
        """
        ...

    def read(self) -> Optional[np.ndarray]:
        """The next frame, or None at the end of the stream. Blocks until a frame arrives.

        Raises:
            RunError: the source broke; the reader may reopen it.
        """
        ...

    def close(self) -> None: ...


class CameraDenied(RunError):
    """The camera refuses user or password. Asked again at once, many cameras lock the account."""

    #: Seconds until it is asked again.
    PAUSE_S = 300.0

    def __init__(self, what: str, *, where: Optional[str] = None, hint: Optional[str] = None) -> None:
        super().__init__(what, where=where, hint=hint or "user or password: rtsp://user:password@host/path")


#: A larger "rate" is no rate but a unit of time, which some cameras and films report (1000, 90000).
MOST_RATE = 240


class Pace:
    """Delays frames to a rate in frames per second, as a camera would; 0: no delay."""

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
    """Skips frames so that at most `rate` per second remain; 0: skips none."""

    def __init__(self, rate: float) -> None:
        self.rate, self._due_s = rate, 0.0

    def skips(self, now_s: float) -> bool:
        """Whether to skip the frame of this time."""
        if not self.rate:
            return False
        period_s = 1 / self.rate
        # A frame that is a little early (a camera's jitter) counts as on time.
        if now_s < self._due_s - period_s * 0.05:
            return True
        # The schedule keeps the mean rate, but no burst follows a pause.
        self._due_s = max(self._due_s, now_s - period_s / 2) + period_s
        return False

    def rest_s(self, now_s: float) -> float:
        """Seconds to wait after the frame of this time, for sources whose frames are delayed rather than skipped."""
        if not self.rate:
            return 0.0
        period_s = 1 / self.rate
        self._due_s = max(self._due_s or now_s, now_s - period_s) + period_s
        return self._due_s - now_s


def check_image(image: object, pixels: str, uri: str) -> None:
    """Raises RunError if `image` is not a frame of format `pixels`, before anything downstream fails on it."""
    shape: Tuple[int, ...] = getattr(image, "shape", ())
    good = len(shape) == 2 and shape[0] % 3 == 0 if pixels in NV12 else len(shape) == 3 and shape[2] == 3
    if not good or getattr(image, "dtype", None) != np.uint8 or min(shape) < 1:
        given = f"{getattr(image, 'dtype', type(image).__name__)} {list(shape)}"
        raise RunError(f"the source gave {given}", where=uri, allowed=f"uint8 pixels, {pixels}")


def interrupt(source: Optional[Source]) -> None:
    """Ends a hanging read, if the source can."""
    end = getattr(source, "interrupt", None)
    if end is not None:
        end()
