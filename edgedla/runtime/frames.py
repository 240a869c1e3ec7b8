"""A frame on its way through the pipeline, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Protocol, Tuple

import numpy as np


class Result(Protocol):
    """A decoded object: Detection, ClassScore and so on. One that has a place in the frame has `moved(dx, dy)` too."""

    def to_dict(self) -> Dict[str, Any]: ...


@dataclass(frozen=True)
class Frame:
    """One captured frame.

    Attributes:
        index: number of the frame in its source, from 0; dropped frames leave gaps.
        image: uint8 array, (h, w, 3) in BGR or RGB, (h * 3 / 2, w) in NV12; never written to after capture.
        captured_s: time.monotonic() when the frame was taken over from the source.
        truth: known objects, where the source makes its frames itself; None otherwise.
        time_s: the wall clock at `captured_s`, in seconds since 1970; it may jump, and nothing is measured with it.
        clock_s: seconds on the clock of what is seen: of a film its own, however fast it is read; of a camera `captured_s`. None
            where there is no such clock, as of pictures without a rate.
    """

    index: int
    image: np.ndarray
    captured_s: float
    truth: Any = None
    time_s: float = 0.0
    clock_s: Optional[float] = None

    @property
    def seen_s(self) -> float:
        """`clock_s`, or `captured_s` where there is none: the time that lasts and is filmed."""
        return self.captured_s if self.clock_s is None else self.clock_s


@dataclass(frozen=True)
class FrameResult:
    """What the pipeline hands to its outputs, in frame order.

    Attributes:
        frame: the captured frame.
        results: decoded objects (Detection, ClassScore, ...).
        runner: where the inference ran. simulated: it was no device.
        inference_ms: time on the runner; of crops, of the last inference. age_ms: from capture to now, when the result is
            complete.
        source, model: their names in a pipeline of several; empty in one of a single source and model.
    """

    frame: Frame
    results: Tuple[Result, ...]
    runner: str
    simulated: bool
    inference_ms: float
    age_ms: float
    source: str = ""
    model: str = ""

    def to_dict(self) -> Dict[str, Any]:
        names = {k: v for k, v in (("source", self.source), ("model", self.model)) if v}
        return {
            **names,
            "frame": self.frame.index,
            "time": round(self.frame.time_s, 3),
            "runner": self.runner,
            "simulated": self.simulated,
            "inference_ms": round(self.inference_ms, 3),
            "age_ms": round(self.age_ms, 3),
            "results": [r.to_dict() for r in self.results],
        }
