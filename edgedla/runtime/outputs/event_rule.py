"""When an event begins: which objects of a result count, where they stand, and which line they cross."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from edgedla.runtime.decode.dense import ClassScore
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import FrameResult

POINTS = ("bottom", "centre")
EACH = ("zone", "object")
DIRECTIONS = ("both", "left", "right")
#: A place in the frame, as shares of its width and height.
Point = Tuple[float, float]
#: The number before 1, so that a box at the frame's edge is inside a zone that reaches the edge.
_WITHIN = 1 - 2**-53


@dataclass(frozen=True)
class EventRule:
    """When an event starts and ends.

    Attributes:
        sources, models: names of those watched; empty for all.
        classes: labels, or class numbers as text; empty for all.
        score: objects below it do not count.
        zone: corners of a polygon, [x, y] as fractions of the frame's width and height (0 to 1); empty for the whole frame.
        point: the point of a box that must be in the zone: the middle of its "bottom" edge, where objects stand, or "centre".
        frames: it starts when so many consecutive results of one source and model contain such an object.
        end_s: it ends after so many seconds without one.
        each: "zone": one event while the zone is not empty. "object": one for each tracked object, which needs `track` of the
            model.
        stay_s: with each: object, it starts when the object has been in the zone for so many seconds.
        line: with each: object, two corners; it starts when the object crosses from one side to the other.
        direction: the side to which an object must cross, seen from the line's first corner to its second: left, right or both.
    """

    sources: Tuple[str, ...] = ()
    models: Tuple[str, ...] = ()
    classes: Tuple[str, ...] = ()
    score: float = 0.5
    zone: Tuple[Point, ...] = ()
    point: str = "bottom"
    frames: int = 3
    end_s: float = 2.0
    each: str = "zone"
    stay_s: float = 0.0
    line: Tuple[Point, ...] = ()
    direction: str = "both"

    def sees(self, source: str, model: str) -> bool:
        return (not self.sources or source in self.sources) and (not self.models or model in self.models)

    def objects(self, result: FrameResult) -> List[Detection]:
        """The objects of a result that count; a class of the whole frame or of a crop counts with that frame's or crop's box."""
        return [d for d, place in self.placed(result) if not self.zone or inside(place, self.zone)]

    def placed(self, result: FrameResult) -> List[Tuple[Detection, Point]]:
        """The objects that count, wherever they are, each with its place."""
        h, w = result.frame.hw
        return [
            (d, self._place(d, w, h))
            for d in _detections(result.results, (0.0, 0.0, float(w), float(h)))
            if d.score >= self.score and (not self.classes or d.label in self.classes or str(d.cls) in self.classes)
        ]

    def crossed(self, before: Point, after: Point) -> str:
        """The side of the line to which a step leads, "left" or "right"; "" if it does not cross, or in the other direction."""
        a, b = self.line
        if (_side(a, b, before) > 0) == (_side(a, b, after) > 0) or (_side(before, after, a) > 0) == (
            _side(before, after, b) > 0
        ):
            return ""
        # In pictures y grows downwards, so the larger side is the right one.
        to = "right" if _side(a, b, after) > 0 else "left"
        return to if self.direction in ("both", to) else ""

    def _place(self, d: Detection, width: int, height: int) -> Point:
        x1, y1, x2, y2 = d.box_xyxy
        x, y = (x1 + x2) / 2 / width, (y2 if self.point == "bottom" else (y1 + y2) / 2) / height
        # Boxes are clipped at the frame's edge, and a polygon's right and lower edges are outside it.
        return (_WITHIN if x == 1 else x), (_WITHIN if y == 1 else y)


def _side(a: Point, b: Point, p: Point) -> float:
    """Above 0 to the right of the way from a to b, in a picture whose y grows downwards."""
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])


def _detections(
    results: Sequence[object], box: Tuple[float, float, float, float], track: Optional[int] = None
) -> List[Detection]:
    matching: List[Detection] = []
    best: Optional[ClassScore] = None
    for r in results:
        if isinstance(r, Detection):
            matching.append(r if track is None else dataclasses.replace(r, track=track))
        elif isinstance(r, ClassScore):
            best = r if best is None or r.score > best.score else best
        elif hasattr(r, "parent"):
            matching += _detections(r.results, r.parent.box_xyxy, r.parent.track)  # type: ignore[attr-defined]
    if best is not None:
        matching.append(Detection(box, best.score, best.cls, best.label, track))
    return matching


def inside(point_xy: Point, corners: Sequence[Point]) -> bool:
    """True if the point is in the polygon, by counting edges to its right; False for NaN."""
    x, y = point_xy
    if not (math.isfinite(x) and math.isfinite(y)):
        return False
    odd = False
    for (x1, y1), (x2, y2) in zip(corners, (*corners[1:], corners[0])):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
            odd = not odd
    return odd
