"""Scaling and colour as OpenCV does them, by NumPy alone: for boards that have no OpenCV, and starts that want none.

The arithmetic is OpenCV's of 8-bit images (imgproc/src/resize.cpp, INTER_LINEAR: 11 bits per coefficient; color_yuv.simd.hpp: BT.601
in 20 bits), so that both give the same pixels, within one level where OpenCV uses a processor's own code.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

_BITS = 11
_ONE = 1 << _BITS


class Resize:
    """Frames (h, w, 3) of one size to another, uint8."""

    def __init__(self, from_hw: Tuple[int, int], to_hw: Tuple[int, int]) -> None:
        rows, (self._low, self._high) = _steps(from_hw[0], to_hw[0])
        self._columns, (self._left, self._right) = _steps(from_hw[1], to_hw[1])
        # A row that several rows of the result read is scaled once; one that none reads is left out.
        self._rows, place = np.unique(rows, return_inverse=True)
        self._above, self._below = place.reshape(rows.shape)

    def __call__(self, image: np.ndarray, out: np.ndarray) -> None:
        used = image[self._rows]
        wide = used[:, self._columns[0]] * self._left[:, None] + used[:, self._columns[1]] * self._right[:, None]
        wide >>= 4
        high = (wide[self._above] * self._low[:, None, None]) >> 16
        high += (wide[self._below] * self._high[:, None, None]) >> 16
        out[...] = (high + 2) >> 2


def _steps(source: int, target: int) -> Tuple[np.ndarray, Tuple[np.ndarray, np.ndarray]]:
    """Of each pixel along one axis: the two it is made of, (2, target), and their weights in 1/2048."""
    at = ((np.arange(target) + 0.5) * (source / target) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    share = at - first.astype(np.float32)
    share[(first < 0) | (first >= source - 1)] = 0
    both = np.clip(np.stack([first, first + 1]), 0, source - 1)
    weights = [np.rint(s * np.float32(_ONE)).astype(np.int32) for s in (1 - share, share)]
    return both, (weights[0], weights[1])


def nv12_to_bgr(frame: np.ndarray) -> np.ndarray:
    """(h * 3 / 2, w) to (h, w, 3), uint8, BT.601 of video range."""
    h = frame.shape[0] * 2 // 3
    luma = np.maximum(frame[:h].astype(np.int32) - 16, 0) * 1220542
    u, v = (frame[h:, k::2].astype(np.int32).repeat(2, 0).repeat(2, 1) - 128 for k in (0, 1))
    half = 1 << 19
    sums = (2116026 * u + half, -409993 * u - 852492 * v + half, 1673527 * v + half)
    return np.stack([np.clip((luma + part) >> 20, 0, 255) for part in sums], -1).astype(np.uint8)
