"""Collects layer times from TensorRT's profiler, inference by inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Mapping, Tuple


@dataclass(frozen=True)
class LayerTimes:
    """The times of an engine's layers.

    Attributes:
        count: inferences.
        times_ms: by engine layer, in execution order: a time for every inference that reported it.
    """

    count: int
    times_ms: Mapping[str, Tuple[float, ...]]


class LayerClock:
    """An inference counts once it ends. The times of a layer that is reported several times (in a loop) are added."""

    def __init__(self) -> None:
        self._count = 0
        self._times: Dict[str, List[float]] = {}
        self._under_way: Dict[str, float] = {}

    def begin(self) -> None:
        """An inference starts; reports of a failed one are dropped."""
        self._under_way = {}

    def report(self, name: str, ms: float) -> None:
        self._under_way[name] = self._under_way.get(name, 0.0) + ms

    def end(self) -> None:
        for name, ms in self._under_way.items():
            self._times.setdefault(name, []).append(ms)
        self._count += 1
        self._under_way = {}

    def forget(self) -> None:
        """Restarts, for example after a warm-up; no inference may be in flight."""
        self._count, self._times, self._under_way = 0, {}, {}

    def times(self) -> LayerTimes:
        return LayerTimes(self._count, {name: tuple(samples) for name, samples in self._times.items()})
