"""Objects as points (Zhou et al. 2019): peaks of one heatmap per class, with a size and an offset at each peak."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.runtime.decode.detections import FARTHEST, BoxSettings, Detection, NmsOptions, check_labels, in_frame, sigmoid
from edgedla.runtime.decode.yolo import logit, stride_of


def decode_centers(outputs: Sequence[np.ndarray], settings: BoxSettings) -> List[Detection]:
    """CenterNet and similar networks. A peak is a value that none of its eight neighbours exceeds; there is no NMS.

    centre = (cell + offset) * stride, size = size * stride.

    Args:
        outputs: in this order: heatmap (1, classes, h, w), logits or probabilities; width and height (1, 2, h, w) in cells;
            optionally offsets x and y (1, 2, h, w) in cells (default: one half).
        settings: uses the thresholds `score` and `limit`. A heatmap within 0..1 is taken as probabilities, else as logits.

    Raises:
        RunError: other shapes.
    """
    heat, size, offset = _maps(outputs)
    stride = stride_of(heat, settings.input_hw)
    check_labels(settings.labels, heat.shape[1])
    peaks, values = _peaks(heat[0].astype(np.float32), settings.nms)
    classes, ys, xs = peaks
    wh = size[0][:, ys, xs].T.astype(np.float64)
    shift = offset[0][:, ys, xs].T.astype(np.float64) if offset is not None else 0.5
    centre, half = np.stack([xs, ys], 1) + shift, wh / 2
    boxes = np.concatenate([centre - half, centre + half], 1) * stride
    # In reduced precision a network may overflow: such a peak is no detection.
    good = np.isfinite(boxes).all(axis=1)
    boxes = np.clip(np.where(good[:, None], boxes, 0.0), -FARTHEST, FARTHEST)
    return in_frame(boxes, values, classes, settings)


def _maps(outputs: Sequence[np.ndarray]) -> Tuple[np.ndarray, np.ndarray, Optional[np.ndarray]]:
    shapes = [list(o.shape) for o in outputs]
    same = {tuple(o.shape[2:]) for o in outputs}
    if (
        len(outputs) not in (2, 3)
        or any(o.ndim != 4 or o.shape[0] != 1 for o in outputs)
        or len(same) != 1
        or any(o.shape[1] != 2 for o in outputs[1:])
    ):
        raise RunError(
            f"outputs of shapes {', '.join(map(str, shapes))}",
            allowed="heatmap (1, classes, h, w), sizes (1, 2, h, w), offsets (1, 2, h, w) or none",
            hint="`outputs` names them in this order",
        )
    return outputs[0], outputs[1], outputs[2] if len(outputs) == 3 else None


def _peaks(heat: np.ndarray, options: NmsOptions) -> Tuple[Tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """((classes, ys, xs), scores) of at most `limit` peaks, best first.

    Args:
        heat: (classes, h, w).
    """
    # fmin and fmax ignore NaN.
    logits = bool(heat.size and (np.fmin.reduce(heat, axis=None) < 0 or np.fmax.reduce(heat, axis=None) > 1))
    heat = np.where(np.isnan(heat), -np.inf, heat)
    c, y, x = np.nonzero(heat >= (logit(options.score) if logits else options.score))
    # Only values above the threshold are compared with their neighbours: most cells are below it.
    edged = np.pad(heat, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    around = np.stack([edged[c, y + dy, x + dx] for dy in range(3) for dx in range(3)])
    top = np.flatnonzero(heat[c, y, x] >= around.max(axis=0, initial=-np.inf))
    best = top[np.argsort(-heat[c[top], y[top], x[top]], kind="stable")[: options.limit]]
    values = heat[c[best], y[best], x[best]]
    return (c[best], y[best], x[best]), sigmoid(values) if logits else values
