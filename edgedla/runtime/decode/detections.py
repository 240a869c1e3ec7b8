"""Detections of one frame, and every detector's last step: threshold, class-wise NMS, mapping to frame pixels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.text.printable import rounded

#: Pixels; larger than any network input.
FARTHEST = 1e5
#: In square pixels, as in OpenCV's `jaccardDistance`.
_NO_AREA = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Detection:
    """One object: box (x1, y1, x2, y2) in pixels of the source frame, score in 0..1, class index.

    `track`: the object's number from frame to frame, if it is tracked.
    """

    box_xyxy: Tuple[float, float, float, float]
    score: float
    cls: int
    label: str = ""
    track: Optional[int] = None

    def moved(self, dx: float, dy: float) -> Detection:
        """The same object, shifted right and down by so many pixels: from a crop into its frame."""
        x1, y1, x2, y2 = self.box_xyxy
        return replace(self, box_xyxy=(x1 + dx, y1 + dy, x2 + dx, y2 + dy))

    def to_dict(self) -> Dict[str, Any]:
        return {
            "box_xyxy": [rounded(v, 2) for v in self.box_xyxy],
            "score": round(self.score, 4),
            "class": self.cls,
            "label": self.label,
            **({} if self.track is None else {"track": self.track}),
        }


@dataclass(frozen=True)
class NmsOptions:
    """Thresholds of detectors: `score` and `iou` in 0..1, at most `limit` detections from a limited number of candidates."""

    score: float = 0.25
    iou: float = 0.45
    limit: int = 300
    candidates: int = 5000
    class_agnostic: bool = False


@dataclass(frozen=True)
class BoxSettings:
    """The inputs of a box decoder besides the outputs.

    Attributes:
        input_hw: network input in pixels.
        geometry: maps network pixels to pixels of the source frame; None keeps network pixels.
        labels: class names in the network's order; may be empty.
    """

    input_hw: Tuple[int, int]
    nms: NmsOptions = field(default_factory=NmsOptions)
    geometry: Optional[Geometry] = None
    labels: Sequence[str] = ()

    def label(self, cls: int) -> str:
        return self.labels[cls] if 0 <= cls < len(self.labels) else ""

    def to_source(self, boxes_xyxy: np.ndarray) -> np.ndarray:
        """Boxes from network pixels to pixels of the source frame, clipped to it; boxes fully outside get zero area."""
        return boxes_xyxy if self.geometry is None else self.geometry.to_source(boxes_xyxy)


def nms(boxes_xyxy: np.ndarray, scores: np.ndarray, classes: np.ndarray, options: NmsOptions) -> np.ndarray:
    """Indices of the kept boxes, best first, by OpenCV's NMS or its equivalent in NumPy; per class unless `class_agnostic`.

    Args:
        boxes_xyxy: float (n, 4). scores: float (n,). classes: int (n,).
    """
    keep = np.flatnonzero(scores >= options.score)
    if keep.size > options.candidates:
        keep = keep[np.argpartition(-scores[keep], options.candidates)[: options.candidates]]
    if not keep.size:
        return keep
    boxes, kept_scores = boxes_xyxy[keep].astype(np.float64), scores[keep].astype(np.float64)
    xywh = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)
    if not options.class_agnostic:
        # Shifting boxes of different classes apart makes one NMS call class-wise in every OpenCV version.
        span = float(np.abs(boxes).max() + 1) * 2
        xywh[:, :2] += (classes[keep] * span)[:, None]
    order = _suppressed(xywh, np.argsort(-kept_scores, kind="stable"), options.iou)
    order = order[np.argsort(-kept_scores[order], kind="stable")][: options.limit]
    return keep[order]


def _suppressed(xywh: np.ndarray, ranked: np.ndarray, iou: float) -> np.ndarray:
    """Of boxes (n, 4), the ones that no better kept box overlaps by more than `iou`; `ranked`: indices, best first."""
    try:
        import cv2
    except ImportError:
        return _suppressed_plain(xywh, ranked, iou)
    # OpenCV drops scores equal to its threshold and rounds scores to 32 bits, so pass ranks instead, the best highest.
    rank = np.empty(len(ranked))
    rank[ranked] = np.arange(len(ranked), 0, -1)
    chosen = cv2.dnn.NMSBoxes(xywh.tolist(), rank.tolist(), 0.5, iou)
    # OpenCV before 4.5.4 returns (n, 1).
    return np.asarray(chosen, np.int64).reshape(-1)


def _suppressed_plain(xywh: np.ndarray, ranked: np.ndarray, iou: float) -> np.ndarray:
    low, high, area = xywh[:, :2], xywh[:, :2] + xywh[:, 2:], xywh[:, 2] * xywh[:, 3]
    chosen, rest = [], ranked
    while rest.size:
        best, rest = rest[0], rest[1:]
        chosen.append(best)
        shared = np.clip(np.minimum(high[best], high[rest]) - np.maximum(low[best], low[rest]), 0, None).prod(1)
        union = area[best] + area[rest] - shared
        # OpenCV treats two boxes without area as equal.
        overlap = np.divide(shared, union, out=np.ones_like(shared), where=area[best] + area[rest] > _NO_AREA)
        rest = rest[overlap <= iou]
    return np.asarray(chosen, np.int64)


def finish(boxes_xyxy: np.ndarray, scores: np.ndarray, classes: np.ndarray, settings: BoxSettings) -> List[Detection]:
    """NMS in network pixels, then boxes mapped to the source frame and clipped to it.

    Drops boxes with a NaN, an infinity or a NaN score, and boxes fully outside the frame.
    """
    # In reduced precision a network may overflow: such a box is no detection, and must not reach NMS.
    good = np.flatnonzero(np.isfinite(boxes_xyxy).all(axis=1) & np.isfinite(scores))
    # Clip to far outside: sizes of 1e30 would swamp the distances between boxes.
    boxes_xyxy = np.clip(np.asarray(boxes_xyxy, np.float64)[good], -FARTHEST, FARTHEST)
    scores, classes = np.asarray(scores)[good], np.asarray(classes)[good]
    keep = nms(boxes_xyxy, scores, classes, settings.nms)
    return in_frame(boxes_xyxy[keep], scores[keep], classes[keep], settings)


def in_frame(boxes_xyxy: np.ndarray, scores: np.ndarray, classes: np.ndarray, settings: BoxSettings) -> List[Detection]:
    """Boxes in network pixels as detections in the source frame; boxes fully outside are dropped."""
    return [
        Detection((float(b[0]), float(b[1]), float(b[2]), float(b[3])), float(s), int(c), settings.label(int(c)))
        for b, s, c in zip(settings.to_source(boxes_xyxy), scores, classes)
        if b[2] > b[0] and b[3] > b[1]
    ]


def check_labels(labels: Sequence[str], classes: int) -> None:
    """Raises RunError if the number of labels does not fit the network: objects would get wrong names."""
    if labels and len(labels) != classes:
        raise RunError(f"{len(labels)} labels for {classes} classes", allowed=f"{classes} names, in the network's order")


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Logistic function; large negative inputs do not overflow."""
    return (0.5 * (1.0 + np.tanh(0.5 * x.astype(np.float32)))).astype(np.float32)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    # Infinities give NaN, which the caller drops; they must not cause a warning per frame.
    with np.errstate(invalid="ignore", over="ignore"):
        x = x.astype(np.float32)
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        result: np.ndarray = e / e.sum(axis=axis, keepdims=True)
    return result
