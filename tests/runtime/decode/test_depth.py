"""Depth maps: the part on the picture, its grid against a loop, drawn and written."""

from __future__ import annotations

import json
import math
import statistics

import numpy as np
import pytest

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode.depth import GRID_HW, decode_depth
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.sinks import as_json

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")


def reference(output, geometry):
    """The values whose centres lie on the picture, row by row."""
    h, w = output.shape[-2:]
    (dh, dw), (ox, oy), (sh, sw) = geometry.dst_hw, geometry.offset_xy, geometry.size_hw
    flat = output.reshape(h, w)
    rows = [y for y in range(h) if oy <= (y + 0.5) * dh / h < oy + sh]
    columns = [x for x in range(w) if ox <= (x + 0.5) * dw / w < ox + sw]
    return [[float(flat[y, x]) for x in columns] for y in rows]


def median_of(values):
    good = [v for v in values if math.isfinite(v)]
    return statistics.median(good) if good else None


@pytest.mark.parametrize("fit", ["letterbox", "stretch", "crop"])
@pytest.mark.parametrize("size", [(64, 96), (32, 48), (33, 50), (16, 24)])
@pytest.mark.parametrize("frame", [(480, 640), (200, 900), (900, 200)])
def test_depth_values_and_grid_equal_the_reference(fit, size, frame):
    geometry = Geometry.fit(frame, (64, 96), fit)
    output = np.random.default_rng(1).uniform(0.5, 80, (1, 1, *size)).astype(np.float32)
    output[0, 0, 0] = np.nan
    found = decode_depth(output, geometry)
    wanted = reference(output, geometry)
    assert np.array_equal(found.values, np.asarray(wanted, np.float32), equal_nan=True)
    h, w = len(wanted), len(wanted[0])
    rows, columns = min(GRID_HW[0], h), min(GRID_HW[1], w)
    for i in range(rows):
        for j in range(columns):
            ys, xs = range(i * h // rows, (i + 1) * h // rows), range(j * w // columns, (j + 1) * w // columns)
            assert found.grid[i][j] == pytest.approx(median_of([wanted[y][x] for y in ys for x in xs]), nan_ok=True)
    assert found.area_xywh == geometry.src_xywh
    told = found.to_dict()["depth"]
    everything = [v for row in wanted for v in row if math.isfinite(v)]
    if everything:
        assert (told["min"], told["max"]) == (pytest.approx(min(everything), abs=1e-4), pytest.approx(max(everything), abs=1e-4))
        assert told["median"] == pytest.approx(statistics.median(everything), abs=1e-4)


@pytest.mark.parametrize("shape", [(1, 1, 8, 12), (1, 8, 12), (1, 8, 12, 1)])
def test_depth_maps_of_three_layouts_decode_equally(shape):
    output = np.arange(96, dtype=np.float32)
    found = decode_depth(output.reshape(shape), Geometry.fit((8, 12), (8, 12)))
    assert np.array_equal(found.values.reshape(-1), output)


@pytest.mark.parametrize("shape", [(8, 12), (2, 1, 8, 12), (1, 3, 8, 12)])
def test_wrong_depth_output_shapes_are_refused(shape):
    with pytest.raises(RunError, match="depth map of shape"):
        decode_depth(np.zeros(shape, np.float32), Geometry.fit((8, 12), (8, 12)))


def test_a_map_without_a_number_is_written_as_null():
    found = decode_depth(np.full((1, 1, 8, 12), np.nan, np.float32), Geometry.fit((8, 12), (8, 12)))
    told = json.loads(as_json(found.to_dict()))["depth"]
    assert told["min"] is told["max"] is told["median"] is told["grid"][0][0] is None
    assert found.range is None


def test_depth_is_drawn_in_colours_within_the_crop_only():
    from edgedla.runtime.outputs.draw import draw

    geometry = Geometry.fit((60, 160), (64, 64), "crop")
    output = np.tile(np.linspace(1, 9, 64, dtype=np.float32), (64, 1))[None, None]
    output[0, 0, :8, :8] = np.inf
    found = decode_depth(output, geometry)
    frame = Frame(0, np.full((60, 160, 3), 100, np.uint8), 0.0)
    picture = draw(FrameResult(frame, (found,), "DLA0", True, 1.0, 2.0)).astype(int)
    assert picture[40, 105].sum() > picture[40, 55].sum() + 50
    assert (picture[30:, :45] == 100).all()
    assert (picture[30:, 115:] == 100).all()
    assert found.moved(5, 7).area_xywh == (55, 7, 60, 60)
