"""Films of a steady rate that last as long as what they show."""

from __future__ import annotations

from typing import Optional

#: A longer time without frames is left out of a film.
MOST_STILL_S = 10.0


class Timing:
    """How often each picture goes into a film of a steady rate, so that the film lasts as long as what it shows.

    A frame that is up to one place early or late takes its own: the jitter of a camera repeats and loses nothing.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._first_s: Optional[float] = None
        #: Since the frame before.
        self.gap_s = self._last_s = 0.0
        #: Pictures in the film since `_first_s`.
        self._count = 0

    def missing(self, clock_s: Optional[float]) -> Optional[int]:
        """How often the picture before is to be repeated ahead of that of this time; None where this one has no place."""
        if clock_s is None:
            return 0
        if self._first_s is None or not 0 <= clock_s - self._last_s <= MOST_STILL_S:
            # The first one, one after a long outage, or another source in its place.
            self._first_s, self._last_s, self._count = clock_s, clock_s, 0
        self.gap_s, self._last_s = clock_s - self._last_s, clock_s
        behind = (clock_s - self._first_s) * self._rate - self._count
        # Times of a film are fractions that no float holds.
        return None if behind <= -1 + 1e-6 else max(0, int(behind + 1e-6))

    def wrote(self, count: int) -> None:
        self._count += count
