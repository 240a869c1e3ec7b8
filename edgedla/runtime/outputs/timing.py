"""Videos with a constant rate that last as long as what they show."""

from __future__ import annotations

from typing import Optional

#: A longer time without frames is left out of a video.
MOST_STILL_S = 10.0


class Timing:
    """How often to write each picture into a video of constant rate, so that the video lasts as long as the scene.

    A frame up to one position early or late keeps its own position: a camera's jitter repeats and drops nothing.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._first_s: Optional[float] = None
        #: Time since the previous frame.
        self.gap_s = self._last_s = 0.0
        #: Pictures in the video since `_first_s`.
        self._count = 0

    def missing(self, clock_s: Optional[float]) -> Optional[int]:
        """How often to repeat the previous picture before the one at this time; None if this one has no position."""
        if clock_s is None:
            return 0
        if self._first_s is None or not 0 <= clock_s - self._last_s <= MOST_STILL_S:
            # The first frame, one after a long outage, or another source in its place.
            self._first_s, self._last_s, self._count = clock_s, clock_s, 0
        self.gap_s, self._last_s = clock_s - self._last_s, clock_s
        lag = (clock_s - self._first_s) * self._rate - self._count
        # A video's times are fractions that floats cannot represent exactly.
        return None if lag <= -1 + 1e-6 else max(0, int(lag + 1e-6))

    def wrote(self, count: int) -> None:
        self._count += count
