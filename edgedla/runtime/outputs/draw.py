"""Draws results into a copy of their frame."""

from __future__ import annotations

import math
from typing import Any, Tuple

import numpy as np

from edgedla.runtime.decode.dense import ClassScore
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.decode.make_decoder import ClassShares
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.sources.opencv import import_cv2

#: Okabe and Ito's colours (BGR), which colour-blind people can tell apart.
COLOURS: Tuple[Tuple[int, int, int], ...] = (
    (0, 159, 230), (233, 180, 86), (115, 158, 0), (66, 228, 240), (178, 114, 0), (0, 94, 213), (167, 121, 204),
)  # fmt: skip


def draw(result: FrameResult, pixels: str = "bgr") -> np.ndarray:
    """The frame as BGR uint8 (h, w, 3) with boxes, classes and a line that says where it ran."""
    cv2: Any = import_cv2()
    image = result.frame.image
    if image.ndim == 2:
        image = cv2.cvtColor(image, cv2.COLOR_YUV2BGR_NV12)
    elif pixels == "rgb":
        image = image[..., ::-1]
    image = np.ascontiguousarray(image).copy()
    size = max(0.4, image.shape[0] / 900)
    line = 0
    for found in result.results:
        if isinstance(found, Detection):
            colour = COLOURS[found.cls % len(COLOURS)]
            if not all(math.isfinite(v) for v in found.box_xyxy):
                continue
            # OpenCV takes coordinates of 32 bits, and draws slowly what lies far outside.
            x1, y1, x2, y2 = (int(round(min(max(v, -32768.0), 32767.0))) for v in found.box_xyxy)
            cv2.rectangle(image, (x1, y1), (x2, y2), colour, max(1, int(2 * size)))
            text = f"{found.label or found.cls} {found.score:.2f}"
            cv2.putText(
                image,
                text,
                (x1, max(12, y1 - 4)),
                cv2.FONT_HERSHEY_SIMPLEX,
                size,
                colour,
                max(1, int(2 * size)),
                cv2.LINE_AA,
            )
        elif isinstance(found, ClassScore):
            line += 1
            text = f"{found.label or found.cls} {found.score:.3f}"
            cv2.putText(
                image,
                text,
                (8, int(28 * size * (line + 1))),
                cv2.FONT_HERSHEY_SIMPLEX,
                size,
                COLOURS[0],
                1,
                cv2.LINE_AA,
            )
        elif isinstance(found, ClassShares) and found.class_map is not None:
            table = np.zeros((256, 3), np.uint8)
            table[1:] = [COLOURS[i % len(COLOURS)] for i in range(255)]
            part = cv2.resize(found.class_map.astype(np.uint8), image.shape[1::-1], interpolation=cv2.INTER_NEAREST)
            image = cv2.addWeighted(image, 0.6, table[part], 0.4, 0)
    device = f"{result.runner} (simulated)" if result.simulated else result.runner
    where = f"{device}  {result.inference_ms:.1f} ms  age {result.age_ms:.0f} ms"
    (width, height), base = cv2.getTextSize(where, cv2.FONT_HERSHEY_SIMPLEX, size, 1)
    image[: height + base + 8, : width + 12] //= 4
    cv2.putText(image, where, (6, height + 4), cv2.FONT_HERSHEY_SIMPLEX, size, (255, 255, 255), 1, cv2.LINE_AA)
    return image
