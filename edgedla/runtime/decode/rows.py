"""Detections decoded by the network itself: one row per candidate, as exporters write a whole YOLO."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from edgedla.errors import RunError
from edgedla.runtime.decode.detections import FARTHEST, BoxSettings, Detection, check_labels, finish, in_frame


def decode_rows(output: np.ndarray, settings: BoxSettings, objectness: bool = False) -> List[Detection]:
    """Boxes (centre x, centre y, width, height in network pixels), optionally objectness, and class probabilities.

    Args:
        output: (1, 4 + classes, candidates) as YOLOv8 and YOLO11 are exported, or its transpose; with `objectness`
            (1, candidates, 5 + classes) as YOLOv5 is. There must be more candidates than values per candidate.
    """
    if output.ndim != 3 or output.shape[0] != 1 or output.shape[1] == output.shape[2]:
        raise RunError(f"an output of shape {list(output.shape)}", allowed="(1, values, candidates) or (1, candidates, values)")
    values = output[0] if output.shape[1] < output.shape[2] else output[0].T
    first = 5 if objectness else 4
    if len(values) <= first:
        raise RunError(f"{len(values)} values per candidate hold no class", allowed=f"more than {first}")
    check_labels(settings.labels, len(values) - first)
    scores = values[first:].astype(np.float32)
    classes = scores.argmax(axis=0)
    best = scores[classes, np.arange(scores.shape[1])]
    if objectness:
        best = best * values[4].astype(np.float32)
    at = np.flatnonzero(best >= settings.nms.score)
    centre, half = values[:2, at].T.astype(np.float64), values[2:4, at].T.astype(np.float64) / 2
    return finish(np.concatenate([centre - half, centre + half], 1), best[at], classes[at], settings)


def decode_final(outputs: Sequence[np.ndarray], settings: BoxSettings) -> List[Detection]:
    """Final boxes: the network contains NMS, or was trained not to need it (YOLOv10).

    Args:
        outputs: one array (1, boxes, 6): x1, y1, x2, y2 in network pixels, score, class.

    Raises:
        RunError: another shape, or a class beyond the labels.
    """
    if len(outputs) != 1 or outputs[0].ndim != 3 or outputs[0].shape[0] != 1 or outputs[0].shape[2] != 6:
        shapes = ", ".join(str(list(o.shape)) for o in outputs)
        raise RunError(f"outputs of shape {shapes}", allowed="one of (1, boxes, 6)")
    rows = outputs[0][0].astype(np.float64)
    rows = rows[np.isfinite(rows).all(axis=1) & (rows[:, 4] >= settings.nms.score)]
    rows = rows[np.argsort(-rows[:, 4], kind="stable")][: settings.nms.limit]
    classes = rows[:, 5].astype(np.int64)
    labels = settings.labels
    if labels and classes.size and not 0 <= classes.min() <= classes.max() < len(labels):
        raise RunError(f"class {int(classes.max())} of {len(labels)} labels", allowed="a name for every class")
    return in_frame(np.clip(rows[:, :4], -FARTHEST, FARTHEST), rows[:, 4], classes, settings)
