"""Latency statistics in constant memory, usable for months."""

from __future__ import annotations

import math
import threading
from typing import Any, Dict, List, Sequence

#: Buckets grow by this factor, so a percentile is within 1 % of the true value.
GROWTH = 1.02
LOWEST_MS = 1e-3
BUCKETS = int(math.log(1e7 / LOWEST_MS) / math.log(GROWTH)) + 2


class Latency:
    """Counts durations in logarithmic buckets from 1 us to 10^4 s. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Only non-empty buckets: a stage's durations fill a few dozen of over a thousand.
        self._counts: Dict[int, int] = {}
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0

    def add(self, ms: float) -> None:
        place = 0 if ms <= LOWEST_MS else min(BUCKETS - 1, int(math.log(ms / LOWEST_MS) / math.log(GROWTH)) + 1)
        with self._lock:
            self._counts[place] = self._counts.get(place, 0) + 1
            self.count += 1
            self.total_ms += ms
            self.max_ms = max(self.max_ms, ms)

    def percentile_ms(self, percent: float) -> float:
        """The duration that `percent` of the counted ones do not exceed; nan before the first."""
        return self._percentiles((percent,))[0]

    def _percentiles(self, percents: Sequence[float]) -> List[float]:
        with self._lock:
            counts, count, highest = sorted(self._counts.items()), self.count, self.max_ms
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
        """count, mean, p50, p90, p99 and max in milliseconds; None before the first."""
        p50, p90, p99 = self._percentiles((50, 90, 99))
        empty = self.count == 0
        return {
            "count": self.count,
            "mean_ms": None if empty else round(self.total_ms / self.count, 4),
            "p50_ms": None if empty else round(p50, 4),
            "p90_ms": None if empty else round(p90, 4),
            "p99_ms": None if empty else round(p99, 4),
            "max_ms": None if empty else round(self.max_ms, 4),
        }


def total(parts: Sequence[Latency]) -> Latency:
    """All durations of the parts together; for a single part, that part."""
    if len(parts) == 1:
        return parts[0]
    whole = Latency()
    for part in parts:
        with part._lock:
            for place, n in part._counts.items():
                whole._counts[place] = whole._counts.get(place, 0) + n
            whole.count += part.count
            whole.total_ms += part.total_ms
            whole.max_ms = max(whole.max_ms, part.max_ms)
    return whole
