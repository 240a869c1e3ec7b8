"""Scaling as OpenCV does it, by NumPy alone: for boards that have no OpenCV, and starts that want none.

The arithmetic is OpenCV's of 8-bit images (imgproc/src/resize.cpp, INTER_LINEAR: 11 bits per coefficient), so that
both give the same pixels, within one level where OpenCV uses a processor's own code.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

_BITS = 11
_ONE = 1 << _BITS
#: Rows of the result that are made at once: the wide numbers between stay in the processor's cache.
ROWS = 16


class Resize:
    """Frames (h, w, 3) of one size to another, uint8."""

    def __init__(self, from_hw: Tuple[int, int], to_hw: Tuple[int, int]) -> None:
        rows, (self._low, self._high) = _steps(from_hw[0], to_hw[0])
        self._columns, (self._left, self._right) = _steps(from_hw[1], to_hw[1])
        self._blocks = [_Block(rows[:, begin : begin + ROWS]) for begin in range(0, to_hw[0], ROWS)]

    def __call__(self, image: np.ndarray, out: np.ndarray) -> None:
        for number, block in enumerate(self._blocks):
            part = slice(number * ROWS, (number + 1) * ROWS)
            used = image[block.used]
            wide = used[:, self._columns[0]] * self._left[:, None]
            wide += used[:, self._columns[1]] * self._right[:, None]
            wide >>= 4
            high = (wide[block.above] * self._low[part, None, None]) >> 16
            high += (wide[block.below] * self._high[part, None, None]) >> 16
            out[part] = (high + 2) >> 2


class _Block:
    """Rows of the result that are made at once: a row that several of them read is scaled once, one that none reads is left out.

    `used`: rows of the frame. above, below: which of these each row of the result is made of.
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.used = sorted({*rows[0].tolist(), *rows[1].tolist()})
        place = {row: i for i, row in enumerate(self.used)}
        self.above, self.below = ([place[row] for row in side] for side in rows.tolist())


def _steps(source: int, target: int) -> Tuple[np.ndarray, Tuple[np.ndarray, np.ndarray]]:
    """Of each pixel along one axis: the two it is made of, (2, target), and their weights in 1/2048."""
    at = ((np.arange(target) + 0.5) * (source / target) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    share = at - first.astype(np.float32)
    share[(first < 0) | (first >= source - 1)] = 0
    both = np.clip(np.stack([first, first + 1]), 0, source - 1)
    weights = [np.rint(s * np.float32(_ONE)).astype(np.int32) for s in (1 - share, share)]
    return both, (weights[0], weights[1])
