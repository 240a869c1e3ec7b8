"""NV12 pictures, a Y plane and then U and V of every 2x2 pixels in turn, to BGR."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np

#: Kinds of NV12 -> (luma of black, then in units of 2^-20: luma to each channel, U to blue, U to green, V to green, V to red).
#: The first is BT.601 of video range as OpenCV has it (color_yuv.simd.hpp). HD streams are BT.709; JPEG and some cameras have full range.
NV12: Dict[str, Tuple[int, ...]] = {"nv12": (16, 1220542, 2116026, -409993, -852492, 1673527)}
for _name, _kr, _kb, _full in (
    ("nv12-full", 0.299, 0.114, True),
    ("nv12-709", 0.2126, 0.0722, False),
    ("nv12-709-full", 0.2126, 0.0722, True),
):
    _luma, _chroma, _kg = (1.0 if _full else 255 / 219), 2 * (1.0 if _full else 255 / 224), 1 - _kr - _kb
    _parts = (_luma, _chroma * (1 - _kb), _chroma * _kb * (_kb - 1) / _kg, _chroma * _kr * (_kr - 1) / _kg, _chroma * (1 - _kr))
    NV12[_name] = (0 if _full else 16, *(round(part * (1 << 20)) for part in _parts))


def frame_hw_of(image: np.ndarray, pixels: str) -> Tuple[int, int]:
    """Size of the picture in an array of `pixels`: NV12 has half as many rows again."""
    return (image.shape[0] * 2 // 3 if pixels in NV12 else image.shape[0]), image.shape[1]


def nv12_to_bgr(frame: np.ndarray, pixels: str = "nv12") -> np.ndarray:
    """(h * 3 / 2, w) to (h, w, 3), uint8, by NumPy alone."""
    h = frame.shape[0] * 2 // 3
    black, luma, u_blue, u_green, v_green, v_red = NV12[pixels]
    y = np.maximum(frame[:h].astype(np.int32) - black, 0) * luma + (1 << 19)
    u, v = (frame[h:, k::2].astype(np.int32).repeat(2, 0).repeat(2, 1) - 128 for k in (0, 1))
    sums = (y + u_blue * u, y + u_green * u + v_green * v, y + v_red * v)
    return np.stack([np.clip(one >> 20, 0, 255) for one in sums], -1).astype(np.uint8)


def part_to_bgr(
    cv2: Any, frame: np.ndarray, pixels: str, part_xywh: Tuple[int, int, int, int], size_hw: Tuple[int, int]
) -> np.ndarray:
    """A part of an NV12 frame in another size, (h, w, 3): scaled before it is converted, which leaves fewer pixels to convert.

    Colours are those of `nv12_to_bgr` within 2 levels, except where U or V jump from one pixel to the next.
    """
    x, y, w, h = part_xywh
    left, top = x % 2, y % 2
    if size_hw == (h, w) and (left or top or h % 2 or w % 2):
        # U and V belong to pairs of pixels.
        w, h = (left + w + 1) // 2 * 2, (top + h + 1) // 2 * 2
        pairs = part_to_bgr(cv2, frame, pixels, (x - left, y - top, w, h), (h, w))
        return np.ascontiguousarray(pairs[top : top + size_hw[0], left : left + size_hw[1]])
    rows, size = frame.shape[0] * 2 // 3, (size_hw[1], size_hw[0])
    luma = frame[y : y + h, x : x + w]
    chroma = frame[rows:].reshape(rows // 2, -1, 2)[y // 2 : (y + h + 1) // 2, x // 2 : (x + w + 1) // 2]
    if pixels == "nv12" and size_hw == (h, w):
        return np.asarray(cv2.cvtColorTwoPlane(luma, chroma, cv2.COLOR_YUV2BGR_NV12))
    black, *to = NV12[pixels]
    rows_of = ((to[0], to[1], 0), (to[0], to[2], to[3]), (to[0], 0, to[4]))
    matrix = np.array([(*row, -row[0] * black - 128 * (row[1] + row[2])) for row in rows_of], np.float64) / (1 << 20)
    # Of a larger picture each U and V is repeated, as `nv12_to_bgr` does, which is quicker too.
    way = cv2.INTER_NEAREST if size_hw[0] >= h and size_hw[1] >= w else cv2.INTER_LINEAR
    planes = [luma if luma.shape == size_hw else cv2.resize(luma, size), cv2.resize(chroma, size, interpolation=way)]
    bgr: np.ndarray = cv2.transform(cv2.merge(planes), matrix.astype(np.float32))
    return bgr


def kind_of(colorimetry: str, height: int) -> str:
    """The kind of NV12 by the colorimetry of GStreamer's caps (RANGE:MATRIX:TRANSFER:PRIMARIES or a name; "": by the height)."""
    full = colorimetry.startswith("1:")
    # gst/video/video-color.h: matrix 4 is BT.601. Without a statement GStreamer takes SD for BT.601 and HD for BT.709.
    bt601 = colorimetry == "bt601" or colorimetry[1:3] == ":4" or (not colorimetry and height <= 576)
    return "nv12" + ("" if bt601 else "-709") + ("-full" if full else "")
