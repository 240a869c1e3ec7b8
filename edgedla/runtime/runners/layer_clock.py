"""Collects the times of layers that TensorRT's profiler reports, inference by inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Mapping, Tuple


@dataclass(frozen=True)
class LayerTimes:
    """What an engine's layers took.

    Attributes:
        count: inferences.
        times_ms: by name of the engine's layer, in order of execution: a time for every inference that reported it.
    """

    count: int
    times_ms: Mapping[str, Tuple[float, ...]]


class LayerClock:
    """An inference counts once it ended. A layer that it reports several times (in a loop) has their sum."""

    def __init__(self) -> None:
        self._count = 0
        self._times: Dict[str, List[float]] = {}
        self._under_way: Dict[str, float] = {}

    def begin(self) -> None:
        """An inference starts; what a failed one reported before is dropped."""
        self._under_way = {}

    def report(self, name: str, ms: float) -> None:
        self._under_way[name] = self._under_way.get(name, 0.0) + ms

    def end(self) -> None:
        for name, ms in self._under_way.items():
            self._times.setdefault(name, []).append(ms)
        self._count += 1
        self._under_way = {}

    def forget(self) -> None:
        """Starts anew, as after a warm-up; no inference may be under way."""
        self._count, self._times, self._under_way = 0, {}, {}

    def times(self) -> LayerTimes:
        return LayerTimes(self._count, {name: tuple(samples) for name, samples in self._times.items()})
