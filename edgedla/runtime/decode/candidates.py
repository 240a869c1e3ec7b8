"""YOLO outputs whose candidates have values besides box and classes: keypoints or mask coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.runtime.decode.detections import BoxSettings, NmsOptions, check_labels, nms, sigmoid, softmax
from edgedla.runtime.decode.yolo import any_above, logit, stride_of


@dataclass(frozen=True)
class Candidates:
    """Candidates at or above the score threshold, in network pixels.

    Attributes:
        boxes_xyxy: (n, 4). scores: (n,), of the best class. classes: (n,).
        extra: (n, values), unchanged from the network.
        cells_xy, strides: (n, 2) and (n, 1): grid cell, and its size in pixels; cell 0 and stride 0 if the network
            itself decoded the values.
    """

    boxes_xyxy: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    extra: np.ndarray
    cells_xy: np.ndarray
    strides: np.ndarray

    def kept(self, options: NmsOptions) -> Candidates:
        """Those kept by NMS, best first; candidates with NaN or infinity are dropped."""
        good = np.flatnonzero(
            np.isfinite(self.boxes_xyxy).all(axis=1) & np.isfinite(self.scores) & np.isfinite(self.extra).all(axis=1)
        )
        at = good[nms(self.boxes_xyxy[good], self.scores[good], self.classes[good], options)]
        return Candidates(
            self.boxes_xyxy[at], self.scores[at], self.classes[at], self.extra[at], self.cells_xy[at], self.strides[at]
        )


@dataclass(frozen=True)
class HeadLayout:
    """Channels of a head: bins of a box distribution, and values besides box and classes; `hint` names the setting for them."""

    reg_max: int
    extra: int
    hint: str

    def classes(self, channels: int, box_channels: int, labels: Sequence[str]) -> int:
        """The number of class channels.

        Raises:
            RunError: none, or not as many as labels.
        """
        classes = channels - box_channels - self.extra
        if classes < 1:
            raise RunError(
                f"{channels} values hold no class beside {box_channels} of the box and {self.extra} more",
                allowed=f"more than {box_channels + self.extra}",
                hint=self.hint,
            )
        check_labels(labels, classes)
        return classes


def read_candidates(outputs: Sequence[np.ndarray], settings: BoxSettings, layout: HeadLayout) -> Candidates:
    """Candidates with `layout.extra` values each.

    Args:
        outputs: one three-dimensional array, (1, 4 + classes + extra, candidates) or its transpose: box centre and size in
            network pixels, class probabilities, extra values. Or raw heads, one array per scale,
            (1, 4 * reg_max + classes + extra, h, w), or each scale's three parts as separate arrays in this order.

    Raises:
        RunError: another shape.
    """
    if len(outputs) == 1 and outputs[0].ndim == 3:
        return _rows(outputs[0], settings, layout)
    scales: Dict[Tuple[int, ...], List[np.ndarray]] = {}
    for output in outputs:
        scales.setdefault(output.shape[2:], []).append(output)
    if not scales:
        raise RunError("there are no heads", allowed="one array per scale")
    each = [_head(parts, settings, layout) for parts in scales.values()]
    return Candidates(*(np.concatenate(values) for values in zip(*each)))


def _rows(output: np.ndarray, settings: BoxSettings, layout: HeadLayout) -> Candidates:
    if output.shape[0] != 1 or output.shape[1] == output.shape[2]:
        raise RunError(f"an output of shape {list(output.shape)}", allowed="(1, values, candidates) or its transpose")
    values = output[0] if output.shape[1] < output.shape[2] else output[0].T
    classes = layout.classes(len(values), 4, settings.labels)
    at = np.flatnonzero(values[4 : 4 + classes].max(axis=0) >= settings.nms.score)
    picked = values[:, at].astype(np.float32)
    half = picked[2:4] / 2
    boxes = np.concatenate([picked[:2] - half, picked[:2] + half]).T
    scores, n = picked[4 : 4 + classes], len(at)
    best = scores.max(axis=0, initial=-np.inf)
    return Candidates(boxes, best, scores.argmax(axis=0), picked[4 + classes :].T, np.zeros((n, 2), np.float32), np.zeros((n, 1)))


def _head(parts: Sequence[np.ndarray], settings: BoxSettings, layout: HeadLayout) -> Tuple[np.ndarray, ...]:
    head = np.concatenate(parts, 1) if len(parts) > 1 else parts[0]
    stride = stride_of(head, settings.input_hw)
    reg_max, sides_of = layout.reg_max, 4 * layout.reg_max
    classes = layout.classes(head.shape[1], sides_of, settings.labels)
    ys, xs = np.nonzero(any_above(head[0, sides_of : sides_of + classes], logit(settings.nms.score)))
    picked = head[0, :, ys, xs].astype(np.float32)
    sides = picked[:, :sides_of].reshape(-1, 4, reg_max)
    distances = softmax(sides, 2) @ np.arange(reg_max, dtype=np.float32) if reg_max > 1 else sides[..., 0]
    cell = np.stack([xs, ys], 1).astype(np.float32)
    centre = cell + 0.5
    boxes = np.concatenate([centre - distances[:, :2], centre + distances[:, 2:]], 1) * stride
    logits = picked[:, sides_of : sides_of + classes]
    best = sigmoid(logits.max(axis=1, initial=-np.inf))
    return boxes, best, logits.argmax(axis=1), picked[:, sides_of + classes :], cell, np.full((len(xs), 1), stride)
