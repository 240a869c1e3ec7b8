"""A frame in the pipeline, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Protocol, Tuple

import numpy as np

from edgedla.preprocess.yuv import frame_hw_of


class Result(Protocol):
    """A decoded object: Detection, ClassScore and so on. Objects with a place in the frame also have `moved(dx, dy)`."""

    def to_dict(self) -> Dict[str, Any]: ...


@dataclass(frozen=True)
class Frame:
    """One captured frame.

    Attributes:
        index: the frame's number in its source, from 0; dropped frames leave gaps.
        image: uint8 array, (h, w, 3) in BGR or RGB, (h * 3 / 2, w) in NV12, as most cameras give it; never written to after capture.
            `edgedla.runtime.outputs.draw.bgr_of(frame)` is it in BGR.
        pixels: bgr, rgb, or one of the kinds of NV12.
        captured_s: time.monotonic() when the frame was received from the source.
        truth: known objects, if the source generates its frames; None otherwise.
        time_s: wall clock at `captured_s`, in seconds since 1970; it may jump, so no duration is measured with it.
        clock_s: seconds on the clock of the scene: for a video its own, however fast it is read; for a camera `captured_s`.
            None if there is no such clock, as for pictures without a rate.
    """

    index: int
    image: np.ndarray
    captured_s: float
    truth: Any = None
    time_s: float = 0.0
    clock_s: Optional[float] = None
    pixels: str = "bgr"

    @property
    def hw(self) -> Tuple[int, int]:
        """Height and width of the picture."""
        return frame_hw_of(self.image, self.pixels)

    @property
    def seen_s(self) -> float:
        """`clock_s`, or `captured_s` if there is none: the time for durations of what is seen."""
        return self.captured_s if self.clock_s is None else self.clock_s


@dataclass(frozen=True)
class FrameResult:
    """What the pipeline passes to its outputs, in frame order.

    Attributes:
        frame: the captured frame.
        results: decoded objects (Detection, ClassScore, ...).
        runner: where the inference ran. simulated: that was not a device.
        inference_ms: time on the runner; for crops, of the last inference. age_ms: from capture until the result was
            complete.
        source, model: their names in a pipeline of several; empty for a single source and model.
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
