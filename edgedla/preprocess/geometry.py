"""Where a resized frame lies in the network input, and the way back for boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

import numpy as np

from edgedla.errors import UsageError

FITS = ("letterbox", "stretch", "crop")


@dataclass(frozen=True)
class Geometry:
    """Frame (src_hw) to network input (dst_hw).

    The source rectangle `src_xywh` is resized to `size_hw` and lies at `offset_xy` of the network input; the rest is padding.
    All in pixels.
    """

    src_hw: Tuple[int, int]
    dst_hw: Tuple[int, int]
    src_xywh: Tuple[int, int, int, int]
    size_hw: Tuple[int, int]
    offset_xy: Tuple[int, int]

    @classmethod
    def fit(cls, src_hw: Tuple[int, int], dst_hw: Tuple[int, int], how: str = "letterbox") -> Geometry:
        """letterbox keeps the aspect ratio and pads centred, stretch fills, crop keeps the ratio and cuts the longer side."""
        if how not in FITS:
            raise UsageError(f"unknown fit {how!r}", allowed=", ".join(FITS))
        (sh, sw), (dh, dw) = src_hw, dst_hw
        if min(sh, sw, dh, dw) < 1:
            raise UsageError(f"cannot fit a {sw}x{sh} frame into {dw}x{dh}", allowed="sizes of at least 1 pixel")
        if how == "stretch":
            return cls(src_hw, dst_hw, (0, 0, sw, sh), dst_hw, (0, 0))
        if how == "crop":
            ratio = min(sh / dh, sw / dw)
            ch, cw = max(1, min(sh, round(dh * ratio))), max(1, min(sw, round(dw * ratio)))
            return cls(src_hw, dst_hw, ((sw - cw) // 2, (sh - ch) // 2, cw, ch), dst_hw, (0, 0))
        ratio = min(dh / sh, dw / sw)
        h, w = max(1, min(dh, round(sh * ratio))), max(1, min(dw, round(sw * ratio)))
        return cls(src_hw, dst_hw, (0, 0, sw, sh), (h, w), ((dw - w) // 2, (dh - h) // 2))

    @property
    def step_xy(self) -> Tuple[float, float]:
        """Source pixels per network pixel."""
        return self.src_xywh[2] / self.size_hw[1], self.src_xywh[3] / self.size_hw[0]

    def to_source(self, boxes_xyxy: np.ndarray) -> np.ndarray:
        """Boxes (n, 4) from network pixels to frame pixels, clipped to the frame."""
        step = np.asarray(self.step_xy * 2)
        offset = np.asarray(self.offset_xy * 2)
        origin = np.asarray((self.src_xywh[0], self.src_xywh[1]) * 2)
        moved = (np.asarray(boxes_xyxy, np.float64) - offset) * step + origin
        high = np.asarray((self.src_hw[1], self.src_hw[0]) * 2, np.float64)
        result: np.ndarray = np.clip(moved, 0, high)
        return result

    def points_to_source(self, points_xy: np.ndarray) -> np.ndarray:
        """Points (..., 2) from network pixels to frame pixels, not clipped."""
        moved = (np.asarray(points_xy, np.float64) - np.asarray(self.offset_xy)) * np.asarray(self.step_xy)
        result: np.ndarray = moved + np.asarray(self.src_xywh[:2])
        return result

    def to_network(self, boxes_xyxy: np.ndarray) -> np.ndarray:
        """Boxes (n, 4) from frame pixels to network pixels, not clipped."""
        moved = np.asarray(boxes_xyxy, np.float64) - np.asarray(self.src_xywh[:2] * 2)
        result: np.ndarray = moved / np.asarray(self.step_xy * 2) + np.asarray(self.offset_xy * 2)
        return result
