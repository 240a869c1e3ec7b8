"""Draws results into a copy of their frame."""

from __future__ import annotations

import math
from typing import Any, Iterable, Optional, Sequence, Tuple

import numpy as np

from edgedla.preprocess.yuv import NV12, part_to_bgr
from edgedla.runtime.decode.dense import ClassScore
from edgedla.runtime.decode.depth import DepthMap
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.decode.instances import Instance
from edgedla.runtime.decode.make_decoder import ClassShares
from edgedla.runtime.decode.pose import COCO_LIMBS, Pose
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.sources.opencv import import_cv2

#: Okabe and Ito's colours (BGR), which colour-blind people can distinguish.
COLOURS: Tuple[Tuple[int, int, int], ...] = (
    (0, 159, 230),
    (233, 180, 86),
    (115, 158, 0),
    (66, 228, 240),
    (178, 114, 0),
    (0, 94, 213),
    (167, 121, 204),
)

#: Pixels of the longer side of an object's picture.
SNAPSHOT = 640


def draw(result: FrameResult) -> np.ndarray:
    """The frame as BGR uint8 (h, w, 3) with boxes, classes and a line that names the runner."""
    return draw_scene([result])


def draw_scene(results: Sequence[FrameResult], width: int = 0) -> np.ndarray:
    """The first result's frame with all results (of models on one source), and a line per result that names its runner.

    Args:
        width: a wider frame is scaled down before drawing, which is cheaper than after; 0: never.
    """
    image, scale = picture_of(results[0].frame, width)
    for result in results:
        _paint(image, result.results, scale)
    y = 0
    for result in results:
        y = _text(image, _caption(result), (4, y))
    return image


def picture_of(frame: Frame, width: int = 0) -> Tuple[np.ndarray, float]:
    """(a BGR copy of the frame to draw into, its size relative to the frame's)."""
    h, w = frame.hw
    scale = min(1.0, width / w) if width else 1.0
    return _part(frame, (0, 0, w, h), (h, w) if scale == 1 else (max(1, round(h * scale)), width)), scale


def bgr_of(frame: Frame) -> np.ndarray:
    """The frame as BGR, uint8 (h, w, 3): a copy."""
    return picture_of(frame)[0]


def _part(frame: Frame, part_xywh: Tuple[int, int, int, int], size_hw: Tuple[int, int]) -> np.ndarray:
    """A BGR copy of a part of the frame in another size."""
    cv2: Any = import_cv2()
    if frame.pixels in NV12:
        return part_to_bgr(cv2, frame.image, frame.pixels, part_xywh, size_hw)
    x, y, w, h = part_xywh
    image = frame.image[y : y + h, x : x + w]
    image = cv2.resize(image, size_hw[::-1]) if size_hw != (h, w) else image.copy()
    return np.ascontiguousarray(image[..., ::-1] if frame.pixels == "rgb" else image)


def _size(image: np.ndarray) -> float:
    return max(0.4, image.shape[0] / 900)


def _text(image: np.ndarray, text: str, at_xy: Tuple[int, int]) -> int:
    """White letters on a darkened ground: objects may have any colour. The top line stays in the picture. The y of a next line."""
    cv2: Any = import_cv2()
    size, x = _size(image), at_xy[0]
    (width, height), base = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, 1)
    y = max(height + 4, at_xy[1])
    image[y - height - 4 : y + base + 4, max(0, x - 4) : max(0, x + width + 4)] //= 4
    cv2.putText(image, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, size, (255, 255, 255), 1, cv2.LINE_AA)
    return int(y + height + base + 8)


def _paint(image: np.ndarray, results: Iterable[object], scale: float) -> None:
    line = 0
    for one in results:
        if isinstance(one, Detection):
            _box(image, one, scale)
            if isinstance(one, Pose):
                _pose(image, one, scale)
            if isinstance(one, Instance):
                _mask(image, one, scale)
        elif isinstance(one, ClassScore):
            line += 1
            text = f"{one.label or one.cls} {one.score:.3f}"
            _text(image, text, (8, int(28 * _size(image) * (line + 1))))
        elif isinstance(one, ClassShares) and one.class_map is not None:
            _class_map(one.class_map, _area(one.area_xywh, image, scale))
        elif isinstance(one, DepthMap):
            _depth(one, _area(one.area_xywh, image, scale))
        elif hasattr(one, "parent"):
            _crop(image, one, scale)
        elif callable(getattr(one, "draw", None)):
            one.draw(image, scale)  # type: ignore[attr-defined]


def _box(image: np.ndarray, detection: Detection, scale: float) -> None:
    if not all(math.isfinite(v) for v in detection.box_xyxy):
        return
    cv2: Any = import_cv2()
    colour = COLOURS[detection.cls % len(COLOURS)]
    x1, y1, x2, y2 = _pixels(detection, scale)
    cv2.rectangle(image, (x1, y1), (x2, y2), colour, max(2, int(2 * _size(image))))
    number = "" if detection.track is None else f"#{detection.track} "
    _text(image, f"{number}{detection.label or detection.cls} {detection.score:.2f}", (x1, y1 - 6))


def _pose(image: np.ndarray, pose: Pose, scale: float) -> None:
    cv2: Any = import_cv2()
    radius = max(2, int(3 * _size(image)))
    # Below one half, a point is more likely hidden than visible.
    at = [
        (int(x * scale), int(y * scale)) if score >= 0.5 and abs(x) + abs(y) < 32768 else None for x, y, score in pose.keypoints
    ]
    for a, b in COCO_LIMBS if len(at) == 17 else ():
        start, end = at[a], at[b]
        if start is not None and end is not None:
            cv2.line(image, start, end, COLOURS[1], max(1, radius // 2), cv2.LINE_AA)
    for point in at:
        if point is not None:
            cv2.circle(image, point, radius, COLOURS[0], -1, cv2.LINE_AA)


def _pixels(detection: Detection, scale: float) -> Tuple[int, ...]:
    # OpenCV takes 32-bit coordinates, and is slow far outside the picture.
    return tuple(int(round(min(max(v * scale, -32768.0), 32767.0))) for v in detection.box_xyxy)


def _crop(image: np.ndarray, crop: Any, scale: float) -> None:
    """A second model's results for a detection: its boxes, and its best class below the detection's box."""
    _paint(image, [r for r in crop.results if isinstance(r, Detection)], scale)
    best = next((r for r in crop.results if isinstance(r, ClassScore)), None)
    if best is not None:
        x1, _, _, y2 = _pixels(crop.parent, scale)
        text = f"{best.label or best.cls} {best.score:.2f}"
        _text(image, text, (x1, y2 + int(24 * _size(image))))


def _mask(image: np.ndarray, instance: Instance, scale: float) -> None:
    cv2: Any = import_cv2()
    outlines = [np.round(np.clip(np.asarray(o) * scale, -32768, 32767)).astype(np.int32) for o in instance.polygons]
    if not outlines:
        return
    colour = COLOURS[instance.cls % len(COLOURS)]
    left, top, w, h = cv2.boundingRect(np.concatenate(outlines))
    # Blend only the object's part: blending the whole picture per object would cost as much as all of them.
    part = image[max(0, top) : max(0, top + h), max(0, left) : max(0, left + w)]
    if part.size:
        shift = (-max(0, left), -max(0, top))
        filled = cv2.fillPoly(part.copy(), outlines, colour, offset=shift)
        part[:] = cv2.addWeighted(part, 0.55, filled, 0.45, 0)
    cv2.polylines(image, outlines, True, colour, 1, cv2.LINE_AA)


def _area(area_xywh: Optional[Tuple[int, int, int, int]], image: np.ndarray, scale: float) -> np.ndarray:
    """The part of the picture covered by a map, as a view."""
    if area_xywh is None:
        return image
    x, y, w, h = (int(round(v * scale)) for v in area_xywh)
    return image[max(0, y) : y + h, max(0, x) : x + w]


def _class_map(class_map: np.ndarray, part: np.ndarray) -> None:
    table = np.zeros((256, 3), np.uint8)
    table[1:] = [COLOURS[i % len(COLOURS)] for i in range(255)]
    _blend(part, table, class_map.astype(np.uint8), nearest=True)


def _depth(depth: DepthMap, part: np.ndarray) -> None:
    """Dark to bright from the smallest to the largest value; values that are not finite stay dark."""
    cv2: Any = import_cv2()
    low, high = depth.range or (0.0, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        share = (depth.values - low) / max(high - low, 1e-9)
    grey = (np.clip(np.nan_to_num(share, nan=0.0), 0, 1) * 255).astype(np.uint8)
    table = cv2.applyColorMap(np.arange(256, dtype=np.uint8).reshape(-1, 1), cv2.COLORMAP_INFERNO)[:, 0]
    _blend(part, table, grey, nearest=False)


def _blend(part: np.ndarray, table: np.ndarray, values: np.ndarray, nearest: bool) -> None:
    """Blends the colours of `values` (h, w), resized to the part, into it."""
    cv2: Any = import_cv2()
    if not part.size or not values.size:
        return
    how = cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR
    large = cv2.resize(values, part.shape[1::-1], interpolation=how)
    part[:] = cv2.addWeighted(part, 0.6, table[large], 0.4, 0)


def _caption(result: FrameResult) -> str:
    device = f"{result.runner} (simulated)" if result.simulated else result.runner
    name = f"{result.model}: " if result.model else ""
    return f"{name}{device}  {result.inference_ms:.1f} ms  age {result.age_ms:.0f} ms"


def cut_out(frame: Frame, box_xyxy: Sequence[float]) -> bytes:
    """A JPEG of an object with a quarter of its size around it, at most SNAPSHOT wide and high; b"" of an empty box."""
    cv2: Any = import_cv2()
    h, w = frame.hw
    x1, y1, x2, y2 = box_xyxy
    dx, dy = (x2 - x1) / 4, (y2 - y1) / 4
    if not all(math.isfinite(v) for v in box_xyxy):
        return b""
    left, top = max(0, int(x1 - dx)), max(0, int(y1 - dy))
    right, bottom = min(w, math.ceil(x2 + dx)), min(h, math.ceil(y2 + dy))
    if right <= left or bottom <= top:
        return b""
    w, h = right - left, bottom - top
    scale = min(1.0, SNAPSHOT / max(w, h))
    part = _part(frame, (left, top, w, h), (max(1, round(h * scale)), max(1, round(w * scale))))
    good, data = cv2.imencode(".jpg", part, [cv2.IMWRITE_JPEG_QUALITY, 85])
    return bytes(data.tobytes()) if good else b""
