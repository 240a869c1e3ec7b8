"""A frame on its way through the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Frame:
    """One captured frame.

    Attributes:
        index: number of the frame in its source, from 0; dropped frames leave gaps.
        image: uint8 array, (h, w, 3) in BGR or RGB, (h * 3 / 2, w) in NV12; never written to after capture.
        captured_s: time.monotonic() when the frame was taken over from the source.
        truth: known objects, where the source makes its frames itself; None otherwise.
        time_s: the wall clock at `captured_s`, in seconds since 1970; it may jump, and nothing is measured with it.
    """

    index: int
    image: np.ndarray
    captured_s: float
    truth: Any = None
    time_s: float = 0.0
