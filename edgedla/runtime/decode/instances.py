"""YOLO instance segmentation: boxes with masks, which are weighted sums of the network's prototypes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode.candidates import HeadLayout, read_candidates
from edgedla.runtime.decode.detections import BoxSettings, Detection
from edgedla.text.printable import rounded

Polygon = Tuple[Tuple[float, float], ...]


@dataclass(frozen=True)
class Instance(Detection):
    """A detection with its mask.

    Attributes:
        mask: bool (h, w) inside the box, one value per pixel of the network input, True on the object.
        mask_xyxy: the rectangle that the mask covers, in pixels of the source frame; it may extend beyond the frame's edge
            by a fraction of a network pixel.
    """

    mask: Optional[np.ndarray] = None
    mask_xyxy: Tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def moved(self, dx: float, dy: float) -> Instance:
        x1, y1, x2, y2 = self.mask_xyxy
        placed = super().moved(dx, dy)
        return replace(self, box_xyxy=placed.box_xyxy, mask_xyxy=(x1 + dx, y1 + dy, x2 + dx, y2 + dy))

    @property
    def polygons(self) -> List[Polygon]:
        """The mask's outlines through the centres of its outermost pixels, (x, y) in pixels of the source frame.

        Holes are filled; parts of fewer than three points are left out.
        """
        import cv2

        if self.mask is None or not self.mask.size:
            return []
        # OpenCV 3 returns (picture, outlines, hierarchy), others (outlines, hierarchy).
        outlines = cv2.findContours(self.mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[-2]
        x1, y1, x2, y2 = self.mask_xyxy
        step = np.asarray([(x2 - x1) / self.mask.shape[1], (y2 - y1) / self.mask.shape[0]])
        placed = [(o.reshape(-1, 2) + 0.5) * step + (x1, y1) for o in outlines if len(o) >= 3]
        return [tuple((float(x), float(y)) for x, y in points) for points in placed]

    def to_dict(self) -> Dict[str, Any]:
        outlines = [[[rounded(x, 1), rounded(y, 1)] for x, y in outline] for outline in self.polygons]
        return {**super().to_dict(), "polygons": outlines}


def decode_instances(outputs: Sequence[np.ndarray], settings: BoxSettings, reg_max: int = 16) -> List[Instance]:
    """YOLOv8-seg and YOLO11-seg (masks as in YOLACT, Bolya et al. 2019).

    A pixel belongs to the object if its centre is in the box and sum_k(coefficient_k * prototype_k) > 0 (that is, its sigmoid
    is above one half), with the prototypes resized bilinearly to the network input.

    Args:
        outputs: the prototypes (1, k, h, w): the four-dimensional array with the most cells, the last of several; and the
            outputs for `read_candidates`, with k coefficients per candidate.

    Raises:
        RunError: other shapes.
    """
    prototypes, rest = _prototypes(outputs, settings.input_hw)
    hint = "decode.reg_max says what the network has; `outputs` names the heads and the prototypes"
    boxes = read_candidates(rest, settings, HeadLayout(reg_max, len(prototypes), hint)).kept(settings.nms)
    instances = []
    for i, b in enumerate(settings.to_source(boxes.boxes_xyxy)):
        if not (b[2] > b[0] and b[3] > b[1]):
            continue
        mask, at = mask_of(prototypes, boxes.extra[i], boxes.boxes_xyxy[i], settings.input_hw)
        x1, y1, x2, y2 = _placed(at, settings.geometry)
        box, cls = (float(b[0]), float(b[1]), float(b[2]), float(b[3])), int(boxes.classes[i])
        instances.append(Instance(box, float(boxes.scores[i]), cls, settings.label(cls), None, mask, (x1, y1, x2, y2)))
    return instances


def _prototypes(outputs: Sequence[np.ndarray], input_hw: Tuple[int, int]) -> Tuple[np.ndarray, List[np.ndarray]]:
    """(prototypes (k, h, w), the other outputs)."""
    maps = [o for o in outputs if o.ndim == 4]
    if len(outputs) < 2 or not maps:
        raise RunError(
            f"outputs of shapes {', '.join(str(list(o.shape)) for o in outputs)}",
            allowed="prototypes (1, k, h, w), and candidates with k mask coefficients",
        )
    # A head of stride 4 has equally many cells; exporters write the prototypes last.
    chosen = max(reversed(maps), key=lambda o: o.shape[2] * o.shape[3])
    h, w = chosen.shape[2:]
    if chosen.shape[0] != 1 or h < 1 or input_hw[0] % h or input_hw[0] // h * w != input_hw[1]:
        raise RunError(
            f"prototypes of shape {list(chosen.shape)} for a network input of {input_hw[0]}x{input_hw[1]}",
            allowed="(1, k, h, w), the input a whole number of times as large",
        )
    return chosen[0].astype(np.float32), [o for o in outputs if o is not chosen]


def mask_of(
    prototypes: np.ndarray, coefficients: np.ndarray, box_xyxy: np.ndarray, input_hw: Tuple[int, int]
) -> Tuple[np.ndarray, Tuple[int, int, int, int]]:
    """(bool mask of the network pixels in the box, its left, top, right and bottom in network pixels).

    Args:
        prototypes: float (k, h, w). coefficients: (k,). box_xyxy: in network pixels.
    """
    import cv2

    h, w = prototypes.shape[1:]
    scale = input_hw[0] // h
    # First and last pixel with a centre (at one half) inside.
    left, top = (max(0, math.ceil(v - 0.5)) for v in box_xyxy[:2])
    right, bottom = (min(most, math.ceil(v - 0.5)) for v, most in zip(box_xyxy[2:], (input_hw[1], input_hw[0])))
    if right <= left or bottom <= top:
        return np.zeros((0, 0), bool), (left, top, left, top)
    # One extra cell on each side, because the resize interpolates neighbours.
    x0, y0 = max(0, left // scale - 1), max(0, top // scale - 1)
    x1, y1 = min(w, (right - 1) // scale + 2), min(h, (bottom - 1) // scale + 2)
    part = np.tensordot(coefficients.astype(np.float32), prototypes[:, y0:y1, x0:x1], 1)
    large = cv2.resize(part, ((x1 - x0) * scale, (y1 - y0) * scale), interpolation=cv2.INTER_LINEAR)
    cut = large[top - y0 * scale : bottom - y0 * scale, left - x0 * scale : right - x0 * scale]
    return np.asarray(cut > 0), (left, top, right, bottom)


def _placed(at: Tuple[int, int, int, int], geometry: Optional[Geometry]) -> Tuple[float, float, float, float]:
    corners = np.asarray([at[:2], at[2:]], np.float64)
    if geometry is not None:
        corners = geometry.points_to_source(corners)
    return float(corners[0, 0]), float(corners[0, 1]), float(corners[1, 0]), float(corners[1, 1])
