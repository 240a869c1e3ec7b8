"""Latency statistics in constant memory, usable for months: percentiles of the last minutes, counts since the start."""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Callable, Dict, List, Sequence

#: Buckets grow by this factor, so a percentile is within 1 % of the true value.
GROWTH = 1.02
LOWEST_MS = 1e-3
#: Percentiles are of the last one to two windows of this length in seconds: what was slow an hour ago is no news.
WINDOW_S = 300.0
BUCKETS = int(math.log(1e7 / LOWEST_MS) / math.log(GROWTH)) + 2


class Latency:
    """Counts durations in logarithmic buckets from 1 us to 10^4 s. Thread-safe.

    Percentiles are of the last 5 to 10 minutes; `count`, `total_ms` and `max_ms` are since the start.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._clock = threading.Lock(), clock
        # Only non-empty buckets: a stage's durations fill a few dozen of over a thousand.
        self._counts: Dict[int, int] = {}
        self._before: Dict[int, int] = {}
        self._since_s = clock()
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0

    def add(self, ms: float) -> None:
        place = 0 if ms <= LOWEST_MS else min(BUCKETS - 1, int(math.log(ms / LOWEST_MS) / math.log(GROWTH)) + 1)
        with self._lock:
            self._turn()
            self._counts[place] = self._counts.get(place, 0) + 1
            self.count += 1
            self.total_ms += ms
            self.max_ms = max(self.max_ms, ms)

    def _turn(self) -> None:
        """Forgets the window before the last where the present one is full."""
        now_s = self._clock()
        if now_s - self._since_s >= WINDOW_S:
            self._before = self._counts if now_s - self._since_s < 2 * WINDOW_S else {}
            self._counts, self._since_s = {}, now_s

    def recent(self) -> Dict[int, int]:
        """Bucket -> number of durations in the last 5 to 10 minutes."""
        with self._lock:
            self._turn()
            return _sum(self._before, self._counts)

    def percentiles_ms(self, *percents: float) -> List[float]:
        """The durations that these shares of the recent ones do not exceed; nan without any."""
        counts, highest = sorted(self.recent().items()), self.max_ms
        count = sum(n for _, n in counts)
        values = []
        for percent in percents:
            if not count:
                values.append(float("nan"))
                continue
            rank, counted, value = max(1, math.ceil(count * percent / 100)), 0, highest
            for place, n in counts:
                counted += n
                if counted >= rank:
                    value = min(highest, LOWEST_MS * GROWTH ** max(place - 0.5, 0))
                    break
            values.append(value)
        return values

    def to_dict(self) -> Dict[str, Any]:
        """count, mean and max since the start, p50, p90 and p99 of the last minutes, in milliseconds; None without any."""
        p50, p90, p99 = self.percentiles_ms(50, 90, 99)
        empty = self.count == 0
        return {
            "count": self.count,
            "mean_ms": None if empty else round(self.total_ms / self.count, 4),
            "p50_ms": None if math.isnan(p50) else round(p50, 4),
            "p90_ms": None if math.isnan(p90) else round(p90, 4),
            "p99_ms": None if math.isnan(p99) else round(p99, 4),
            "max_ms": None if empty else round(self.max_ms, 4),
        }


def total(parts: Sequence[Latency]) -> Latency:
    """All durations of the parts together; for a single part, that part."""
    if len(parts) == 1:
        return parts[0]
    whole = Latency()
    for part in parts:
        recent = part.recent()
        with part._lock:
            whole._counts = _sum(whole._counts, recent)
            whole.count += part.count
            whole.total_ms += part.total_ms
            whole.max_ms = max(whole.max_ms, part.max_ms)
    return whole


def _sum(a: Dict[int, int], b: Dict[int, int]) -> Dict[int, int]:
    return {place: a.get(place, 0) + b.get(place, 0) for place in {*a, *b}} if a else dict(b)
