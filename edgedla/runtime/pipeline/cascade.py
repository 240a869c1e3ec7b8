"""Cascades: a model that runs on the crops of another model's detections."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import FrameResult, Result

#: Left, top, right and bottom in whole pixels of the frame.
Box = Tuple[int, int, int, int]


@dataclass(frozen=True)
class CropRule:
    """Which detections of a model become inputs of the next model.

    Attributes:
        of: name of the model whose detections are cropped.
        classes: labels, or numbers as text; all of them if empty.
        score: leave out detections below this score.
        min_size: minimum of a crop's shorter side, in pixels of the frame, before the margin.
        margin: share of the box's width and height that is added on each side.
        most: maximum number of crops per frame, the best scores first.
    """

    of: str = ""
    classes: Tuple[str, ...] = ()
    score: float = 0.0
    min_size: float = 16.0
    margin: float = 0.1
    most: int = 8

    def pick(self, result: FrameResult) -> List[Tuple[int, Detection]]:
        """[(number in the result, detection), ...], best first."""
        fitting = [
            (i, d)
            for i, d in enumerate(_flat(result.results))
            if isinstance(d, Detection)
            and (not self.classes or d.label in self.classes or str(d.cls) in self.classes)
            and d.score >= self.score
            and all(math.isfinite(v) for v in d.box_xyxy)
            and min(d.box_xyxy[2] - d.box_xyxy[0], d.box_xyxy[3] - d.box_xyxy[1]) >= self.min_size
        ]
        return sorted(fitting, key=lambda pair: -pair[1].score)[: self.most]

    def box(self, detection: Detection, frame_hw: Tuple[int, int]) -> Optional[Box]:
        """The crop with its margin, inside the frame, on even pixels (NV12 has colour only for every second pixel)."""
        x1, y1, x2, y2 = detection.box_xyxy
        dx, dy = (x2 - x1) * self.margin, (y2 - y1) * self.margin
        h, w = frame_hw
        left, top = (max(0, int(v) // 2 * 2) for v in (x1 - dx, y1 - dy))
        right = min(w, -(-math.ceil(x2 + dx) // 2) * 2)
        bottom = min(h, -(-math.ceil(y2 + dy) // 2) * 2)
        return (left, top, right, bottom) if right - left >= 2 and bottom - top >= 2 else None


@dataclass(frozen=True)
class Crop:
    """A part of a frame as a model's input. `parent`: the detection that it was cut around; `number`: that detection's number."""

    number: int
    parent: Detection
    box: Box


@dataclass(frozen=True)
class CropResult:
    """A model's results for one crop.

    Attributes:
        of: number of the detection in the other model's result for the same frame; if that model runs on crops too, counted
            over all its crops.
        parent: that detection. results: decoded objects, with boxes in pixels of the frame.
    """

    of: int
    parent: Detection
    results: Tuple[Result, ...]

    def to_dict(self) -> Dict[str, Any]:
        return {"of": self.of, "parent": self.parent.to_dict(), "results": [r.to_dict() for r in self.results]}


def _flat(results: Sequence[Result]) -> Iterator[Result]:
    """The results of a frame, or those of all its crops."""
    for result in results:
        if isinstance(result, CropResult):
            yield from result.results
        else:
            yield result


def crops_of(rule: CropRule, result: FrameResult) -> List[Crop]:
    """The crops of a result; [] if no detection fits the rule."""
    pairs = [(i, d, rule.box(d, result.frame.hw)) for i, d in rule.pick(result)]
    return [Crop(i, d, box) for i, d, box in pairs if box is not None]


def cut(image: np.ndarray, box: Box) -> np.ndarray:
    """The part of a frame (h, w, 3), or of an NV12 frame (h * 3 / 2, w), in a box with even corners."""
    left, top, right, bottom = box
    if image.ndim == 3:
        return image[top:bottom, left:right]
    h = image.shape[0] * 2 // 3
    luma, chroma = image[top:bottom, left:right], image[h + top // 2 : h + bottom // 2, left:right]
    return np.concatenate([luma, chroma])


def moved(results: Sequence[Result], box: Box) -> Tuple[Result, ...]:
    """Results of a crop in pixels of the frame: results with a position have `moved`."""
    left, top = box[0], box[1]
    return tuple(r.moved(left, top) if hasattr(r, "moved") else r for r in results)


def as_crop_result(crop: Crop, results: Sequence[Result]) -> CropResult:
    return CropResult(crop.number, replace(crop.parent), moved(results, crop.box))
