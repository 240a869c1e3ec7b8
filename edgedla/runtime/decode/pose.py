"""YOLO pose: boxes with keypoints, from raw heads or from rows that the network decoded itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from edgedla.runtime.decode.candidates import HeadLayout, read_candidates
from edgedla.runtime.decode.detections import BoxSettings, Detection, sigmoid
from edgedla.text.printable import rounded

Keypoint = Tuple[float, float, float]
#: Pairs of COCO's 17 keypoints joined in pictures: nose, eyes, ears; shoulders, elbows, wrists; hips, knees, ankles.
_HEAD, _ARMS = ((0, 1), (0, 2), (1, 3), (2, 4)), ((5, 6), (5, 7), (7, 9), (6, 8), (8, 10))
_TRUNK, _LEGS = ((5, 11), (6, 12), (11, 12)), ((11, 13), (13, 15), (12, 14), (14, 16))
COCO_LIMBS = (*_HEAD, *_ARMS, *_TRUNK, *_LEGS)


@dataclass(frozen=True)
class Pose(Detection):
    """A detection with keypoints: (x, y) in pixels of the source frame, and the confidence 0..1 that the point is visible."""

    keypoints: Tuple[Keypoint, ...] = ()

    def moved(self, dx: float, dy: float) -> Pose:
        x1, y1, x2, y2 = self.box_xyxy
        points = tuple((x + dx, y + dy, score) for x, y, score in self.keypoints)
        return replace(self, box_xyxy=(x1 + dx, y1 + dy, x2 + dx, y2 + dy), keypoints=points)

    def to_dict(self) -> Dict[str, Any]:
        points = [[rounded(x, 2), rounded(y, 2), round(score, 4)] for x, y, score in self.keypoints]
        return {**super().to_dict(), "keypoints": points}


def decode_pose(outputs: Sequence[np.ndarray], settings: BoxSettings, reg_max: int = 16, keypoints: int = 17) -> List[Pose]:
    """YOLOv8-pose and YOLO11-pose.

    Args:
        outputs: one three-dimensional array, (1, 4 + classes + 3 * keypoints, candidates) or its transpose, as exporters
            write the whole network: box centre and size, class probabilities, then x, y and visibility of each keypoint.
            Or raw heads, one array per scale, (1, 4 * reg_max + classes + 3 * keypoints, h, w), or each scale's three parts as
            separate arrays in this order. A raw keypoint is ((2 x + cell) * stride, (2 y + cell) * stride), its visibility a logit.

    Raises:
        RunError: another shape.
    """
    hint = "decode.keypoints and decode.reg_max say what the network has"
    boxes = read_candidates(outputs, settings, HeadLayout(reg_max, 3 * keypoints, hint)).kept(settings.nms)
    points = boxes.extra.reshape(-1, keypoints, 3).astype(np.float64)
    xy, scores = points[..., :2], points[..., 2]
    if boxes.strides.all():
        xy = (xy * 2 + boxes.cells_xy[:, None]) * boxes.strides[:, None]
        scores = sigmoid(scores)
    if settings.geometry is not None:
        xy = settings.geometry.points_to_source(xy)
    return [
        Pose(
            (float(b[0]), float(b[1]), float(b[2]), float(b[3])),
            float(boxes.scores[i]),
            int(boxes.classes[i]),
            settings.label(int(boxes.classes[i])),
            None,
            tuple((float(x), float(y), float(v)) for (x, y), v in zip(xy[i], scores[i])),
        )
        for i, b in enumerate(settings.to_source(boxes.boxes_xyxy))
        if b[2] > b[0] and b[3] > b[1]
    ]
