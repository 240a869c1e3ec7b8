"""Depth and other maps of one number per pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.text.printable import rounded

#: Rows and columns of the grid in the JSON lines.
GRID_HW = (6, 8)


@dataclass(frozen=True)
class DepthMap:
    """A number per pixel in the network's own unit: metres, or inverse depth, which grows as things come nearer.

    Attributes:
        values: float32 (h, w), the part of the network's output that covers the picture.
        area_xywh: the part of the source frame that the values cover, in pixels.
    """

    values: np.ndarray
    area_xywh: Tuple[int, int, int, int]

    def moved(self, dx: float, dy: float) -> DepthMap:
        x, y, w, h = self.area_xywh
        return DepthMap(self.values, (int(x + dx), int(y + dy), w, h))

    @property
    def range(self) -> Optional[Tuple[float, float]]:
        """(smallest, largest) finite value; None if there is none."""
        good = self.values[np.isfinite(self.values)]
        return (float(good.min()), float(good.max())) if good.size else None

    @property
    def grid(self) -> List[List[Optional[float]]]:
        """The median of each cell of GRID_HW, from the top left; None if a cell has no finite value. Row i starts at row
        i * h // rows of the values and has at least one of them."""
        h, w = self.values.shape
        rows, columns = min(GRID_HW[0], h), min(GRID_HW[1], w)
        return [
            [
                _median(self.values[i * h // rows : (i + 1) * h // rows, j * w // columns : (j + 1) * w // columns])
                for j in range(columns)
            ]
            for i in range(rows)
        ]

    def to_dict(self) -> Dict[str, Any]:
        low, high = self.range or (None, None)
        median = _median(self.values)
        grid = [[None if v is None else rounded(v, 4) for v in row] for row in self.grid]
        figures = {k: None if v is None else rounded(v, 4) for k, v in (("min", low), ("max", high), ("median", median))}
        return {"depth": {**figures, "grid": grid}}


def _median(values: np.ndarray) -> Optional[float]:
    good = values[np.isfinite(values)]
    return float(np.median(good)) if good.size else None


def decode_depth(output: np.ndarray, geometry: Geometry) -> DepthMap:
    """The values that cover the picture: those on a letterbox's padding are cut off.

    Args:
        output: (1, 1, h, w), (1, h, w) or (1, h, w, 1), of any size in the input's aspect ratio.

    Raises:
        RunError: another shape.
    """
    shape = output.shape
    if output.ndim == 4 and shape[0] == 1 and 1 in (shape[1], shape[3]):
        values = output[0, 0] if shape[1] == 1 else output[0, :, :, 0]
    elif output.ndim == 3 and shape[0] == 1:
        values = output[0]
    else:
        raise RunError(f"a depth map of shape {list(shape)}", allowed="(1, 1, h, w), (1, h, w) or (1, h, w, 1)")
    h, w = values.shape
    (dh, dw), (ox, oy), (sh, sw) = geometry.dst_hw, geometry.offset_xy, geometry.size_hw
    # Cells whose centre is on the picture; at least one.
    top, bottom = _inside(h, dh, oy, sh)
    left, right = _inside(w, dw, ox, sw)
    return DepthMap(np.ascontiguousarray(values[top:bottom, left:right], np.float32), geometry.src_xywh)


def _inside(cells: int, pixels: int, start: int, length: int) -> Tuple[int, int]:
    """The range of cells whose centres lie in [start, start + length) of `pixels`."""
    first = -(-(2 * start * cells - pixels) // (2 * pixels))
    last = -(-(2 * (start + length) * cells - pixels) // (2 * pixels))
    first = min(max(first, 0), cells - 1)
    return first, max(first + 1, min(last, cells))
