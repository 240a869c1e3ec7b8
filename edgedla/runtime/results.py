"""The result of one frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Tuple

from edgedla.runtime.frames import Frame


@dataclass(frozen=True)
class FrameResult:
    """What the pipeline hands to its outputs, in frame order.

    Attributes:
        frame: the captured frame.
        results: decoded objects (Detection, ClassScore, ...), each with `.to_dict()`.
        runner: where the inference ran. simulated: it was no device.
        inference_ms: time on the runner. age_ms: from capture to now, when the result is complete.
    """

    frame: Frame
    results: Tuple[Any, ...]
    runner: str
    simulated: bool
    inference_ms: float
    age_ms: float

    def to_dict(self) -> Dict[str, Any]:
        return {
            "frame": self.frame.index,
            "time": round(self.frame.time_s, 3),
            "runner": self.runner,
            "simulated": self.simulated,
            "inference_ms": round(self.inference_ms, 3),
            "age_ms": round(self.age_ms, 3),
            "results": [r.to_dict() for r in self.results],
        }
