"""YOLO pose: boxes with keypoints, as raw heads or as rows that the network decoded itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode.detections import Detection, NmsOptions, check_labels, nms, sigmoid, softmax
from edgedla.runtime.decode.yolo import any_above, logit, stride_of

Keypoint = Tuple[float, float, float]
#: Pairs of COCO's 17 keypoints that a picture joins: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles.
COCO_LIMBS = (
    (0, 1), (0, 2), (1, 3), (2, 4), (5, 6), (5, 7), (7, 9), (6, 8), (8, 10), (5, 11), (6, 12), (11, 12), (11, 13),
    (13, 15), (12, 14), (14, 16),
)  # fmt: skip


@dataclass(frozen=True)
class Pose(Detection):
    """A detection with keypoints: (x, y) in pixels of the source frame, and how sure it is that the point is seen, 0..1."""

    keypoints: Tuple[Keypoint, ...] = ()

    def moved(self, dx: float, dy: float) -> Pose:
        x1, y1, x2, y2 = self.box_xyxy
        points = tuple((x + dx, y + dy, seen) for x, y, seen in self.keypoints)
        return replace(self, box_xyxy=(x1 + dx, y1 + dy, x2 + dx, y2 + dy), keypoints=points)

    def to_dict(self) -> Dict[str, Any]:
        points = [[round(x, 2), round(y, 2), round(seen, 4)] for x, y, seen in self.keypoints]
        return {**super().to_dict(), "keypoints": points}


def decode_pose(
    outputs: Sequence[np.ndarray],
    input_hw: Tuple[int, int],
    options: Optional[NmsOptions] = None,
    geometry: Optional[Geometry] = None,
    labels: Sequence[str] = (),
    reg_max: int = 16,
    keypoints: int = 17,
) -> List[Pose]:
    """YOLOv8-pose and YOLO11-pose.

    Args:
        outputs: one array of three dimensions, (1, 4 + classes + 3 * keypoints, candidates) or its transpose, as exporters
            write the whole network: box centre and size, class probabilities, then x, y and visibility of each keypoint.
            Or raw heads, one array a scale, (1, 4 * reg_max + classes + 3 * keypoints, h, w), or the three parts of a scale
            apart in this order. A raw keypoint is ((2 x + cell) * stride, (2 y + cell) * stride), its visibility a logit.

    Raises:
        RunError: another shape.
    """
    options = options or NmsOptions()
    if len(outputs) == 1 and outputs[0].ndim == 3:
        boxes, scores, points = _rows(outputs[0], options, labels, keypoints)
    else:
        boxes, scores, points = _heads(outputs, input_hw, options, labels, reg_max, keypoints)
    best = scores.max(axis=1) if scores.size else np.zeros(0)
    classes = scores.argmax(axis=1) if scores.size else np.zeros(0, np.int64)
    good = np.flatnonzero(np.isfinite(boxes).all(axis=1) & np.isfinite(best) & np.isfinite(points).all(axis=(1, 2)))
    boxes, best, classes, points = boxes[good], best[good], classes[good], points[good].astype(np.float64)
    keep = nms(boxes, best, classes, options)
    placed = boxes[keep]
    xy = points[keep, :, :2]
    if geometry is not None:
        placed, xy = geometry.to_source(placed), geometry.points_to_source(xy)
    return [
        Pose(
            (float(b[0]), float(b[1]), float(b[2]), float(b[3])), float(best[i]), int(classes[i]),
            labels[classes[i]] if labels else "", None,
            tuple((float(x), float(y), float(seen)) for (x, y), seen in zip(at, points[i, :, 2])),
        )
        for b, i, at in zip(placed, keep, xy)
        if b[2] > b[0] and b[3] > b[1]
    ]  # fmt: skip


def _rows(output: np.ndarray, options: NmsOptions, labels: Sequence[str], keypoints: int) -> Tuple[np.ndarray, ...]:
    if output.shape[0] != 1 or output.shape[1] == output.shape[2]:
        raise RunError(f"rows of shape {list(output.shape)}", allowed="(1, values, candidates) or its transpose")
    values = output[0] if output.shape[1] < output.shape[2] else output[0].T
    classes = _classes(len(values), 4, keypoints, labels)
    at = np.flatnonzero(values[4 : 4 + classes].max(axis=0) >= options.score)
    picked = values[:, at].astype(np.float32)
    half = picked[2:4] / 2
    boxes = np.concatenate([picked[:2] - half, picked[:2] + half]).T
    return boxes, picked[4 : 4 + classes].T, picked[4 + classes :].T.reshape(-1, keypoints, 3)


def _heads(
    outputs: Sequence[np.ndarray],
    input_hw: Tuple[int, int],
    options: NmsOptions,
    labels: Sequence[str],
    reg_max: int,
    keypoints: int,
) -> Tuple[np.ndarray, ...]:
    scales: Dict[Tuple[int, ...], List[np.ndarray]] = {}
    for output in outputs:
        scales.setdefault(output.shape[2:], []).append(output)
    boxes, scores, points = [], [], []
    bins, threshold, sides_of = np.arange(reg_max, dtype=np.float32), logit(options.score), 4 * reg_max
    for parts in scales.values():
        head = np.concatenate(parts, 1) if len(parts) > 1 else parts[0]
        stride = stride_of(head, input_hw)
        classes = _classes(head.shape[1], sides_of, keypoints, labels)
        ys, xs = np.nonzero(any_above(head[0, sides_of : sides_of + classes], threshold))
        picked = head[0, :, ys, xs].astype(np.float32)
        sides = picked[:, :sides_of].reshape(-1, 4, reg_max)
        distances = softmax(sides, 2) @ bins if reg_max > 1 else sides[..., 0]
        cell = np.stack([xs, ys], 1).astype(np.float32)
        centre = cell + 0.5
        boxes.append(np.concatenate([centre - distances[:, :2], centre + distances[:, 2:]], 1) * stride)
        scores.append(sigmoid(picked[:, sides_of : sides_of + classes]))
        raw = picked[:, sides_of + classes :].reshape(-1, keypoints, 3)
        xy = (raw[..., :2] * 2 + cell[:, None]) * stride
        points.append(np.concatenate([xy, sigmoid(raw[..., 2:])], 2))
    if not boxes:
        raise RunError("there are no heads", allowed="one array a scale")
    return np.concatenate(boxes), np.concatenate(scores), np.concatenate(points)


def _classes(channels: int, before: int, keypoints: int, labels: Sequence[str]) -> int:
    classes = channels - before - 3 * keypoints
    if classes < 1:
        raise RunError(
            f"{channels} values hold no class beside {before} of the box and {keypoints} keypoints",
            allowed=f"more than {before + 3 * keypoints}",
            hint="decode.keypoints and decode.reg_max say what the network has",
        )
    check_labels(labels, classes)
    return classes
