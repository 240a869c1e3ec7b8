"""Detections that the network decodes itself: one row a candidate, as exporters write a whole YOLO."""

from __future__ import annotations

from typing import List, Optional, Sequence

import numpy as np

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode.detections import Detection, NmsOptions, check_labels, finish


def decode_rows(
    output: np.ndarray,
    options: Optional[NmsOptions] = None,
    geometry: Optional[Geometry] = None,
    labels: Sequence[str] = (),
    objectness: bool = False,
) -> List[Detection]:
    """Boxes (centre x, centre y, width, height in network pixels), objectness if there is one, and class probabilities.

    Args:
        output: (1, 4 + classes, candidates) as YOLOv8 and YOLO11 are exported, or its transpose; with `objectness`
            (1, candidates, 5 + classes) as YOLOv5 is. There are more candidates than values of one.
    """
    options = options or NmsOptions()
    if output.ndim != 3 or output.shape[0] != 1 or output.shape[1] == output.shape[2]:
        raise RunError(
            f"rows of shape {list(output.shape)}", allowed="(1, values, candidates) or (1, candidates, values)"
        )
    values = output[0] if output.shape[1] < output.shape[2] else output[0].T
    first = 5 if objectness else 4
    if len(values) <= first:
        raise RunError(f"rows of {len(values)} values have no class", allowed=f"more than {first}")
    check_labels(labels, len(values) - first)
    scores = values[first:].astype(np.float32)
    classes = scores.argmax(axis=0)
    best = scores[classes, np.arange(scores.shape[1])]
    if objectness:
        best = best * values[4].astype(np.float32)
    at = np.flatnonzero(best >= options.score)
    centre, half = values[:2, at].T.astype(np.float64), values[2:4, at].T.astype(np.float64) / 2
    return finish(np.concatenate([centre - half, centre + half], 1), best[at], classes[at], options, geometry, labels)
