"""Heatmaps of objects as points, against a decoder written cell by cell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode.centernet import decode_centers
from edgedla.runtime.decode.detections import BoxSettings, NmsOptions

HW, STRIDE, CLASSES = (64, 96), 4, 3
OPTIONS = NmsOptions(score=0.4, limit=300)


def network(seed):
    rng = np.random.default_rng(seed)
    h, w = HW[0] // STRIDE, HW[1] // STRIDE
    heat = rng.normal(-1, 1.5, (1, CLASSES, h, w)).astype(np.float32)
    return (heat, rng.uniform(0.5, 6, (1, 2, h, w)).astype(np.float32), rng.uniform(0, 1, (1, 2, h, w)).astype(np.float32))


def reference(heat, size, offset, probabilities=False):
    """(score, class, box) of each cell that no neighbour exceeds, best first."""
    found = []
    _, classes, h, w = heat.shape
    for c in range(classes):
        for y in range(h):
            for x in range(w):
                value = float(heat[0, c, y, x])
                score = value if probabilities else 1 / (1 + math.exp(-value))
                around = [
                    float(heat[0, c, y + dy, x + dx])
                    for dy in (-1, 0, 1)
                    for dx in (-1, 0, 1)
                    if 0 <= y + dy < h and 0 <= x + dx < w
                ]
                if score < OPTIONS.score or value < max(around):
                    continue
                dx, dy = (0.5, 0.5) if offset is None else (float(v) for v in offset[0, :, y, x])
                bw, bh = (float(v) for v in size[0, :, y, x])
                box = [(x + dx - bw / 2), (y + dy - bh / 2), (x + dx + bw / 2), (y + dy + bh / 2)]
                found.append((score, c, [v * STRIDE for v in box]))
    return sorted(found, key=lambda f: -f[0])


def check(found, wanted):
    assert len(found) == len(wanted) > 10
    for one, (score, cls, box) in zip(found, wanted):
        assert (one.score, one.cls) == (pytest.approx(score, abs=1e-5), cls)
        assert one.box_xyxy == pytest.approx(box, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_centernet_peaks_equal_the_reference(seed):
    maps = network(seed)
    check(decode_centers(maps, BoxSettings(HW, OPTIONS)), reference(*maps))


def test_a_centernet_heatmap_of_probabilities_is_recognised():
    heat, size, offset = network(1)
    heat = (1 / (1 + np.exp(-heat))).astype(np.float32)
    check(decode_centers((heat, size, offset), BoxSettings(HW, OPTIONS)), reference(heat, size, offset, probabilities=True))


def test_centernet_without_offsets_uses_the_cell_centre():
    heat, size, _ = network(2)
    check(decode_centers((heat, size), BoxSettings(HW, OPTIONS)), reference(heat, size, None))


def test_half_precision_finds_the_same_objects():
    maps = [m.astype(np.float16) for m in network(3)]
    check(decode_centers(maps, BoxSettings(HW, OPTIONS)), reference(*maps))


def test_boxes_map_to_the_frame_clipped_and_the_limit_keeps_the_best():
    maps, geometry = network(4), Geometry.fit((480, 640), HW)
    found = decode_centers(maps, BoxSettings(HW, NmsOptions(score=0.4, limit=5), geometry, ("a", "b", "c")))
    wanted = reference(*maps)[:5]
    assert len(found) <= 5
    for one in found:
        score, cls, box = min(wanted, key=lambda r: abs(r[0] - one.score))
        placed = geometry.to_source(np.asarray([box]))[0]
        assert one.box_xyxy == pytest.approx(placed, abs=0.02)
        assert one.label == "abc"[cls]
        assert score == pytest.approx(one.score, abs=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_give_no_centernet_objects(value):
    heat, size, offset = network(5)
    size[0, 0] = value
    assert decode_centers((heat, size, offset), BoxSettings(HW, OPTIONS)) == []
    heat[:] = value
    decode_centers((heat, *network(5)[1:]), BoxSettings(HW, OPTIONS))
    # A NaN does not make logits of probabilities.
    quiet = np.full_like(heat, 0.1)
    quiet[0, 0, 3, 3], quiet[0, 1, 5, 5] = 0.9, np.nan
    found = decode_centers((quiet, *network(5)[1:]), BoxSettings(HW, OPTIONS))
    assert [f.score for f in found] == [pytest.approx(0.9)]


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ([(1, 3, 16, 24)], "heatmap"),
        ([(1, 3, 16, 24), (1, 3, 16, 24)], "sizes"),
        ([(1, 3, 16, 24), (1, 2, 8, 12)], "sizes"),
        ([(2, 3, 16, 24), (2, 2, 16, 24)], "heatmap"),
        ([(1, 3, 15, 24), (1, 2, 15, 24)], "does not divide"),
    ],
)
def test_wrong_centernet_output_shapes_are_refused(shapes, says):
    with pytest.raises(RunError) as e:
        decode_centers([np.zeros(s, np.float32) for s in shapes], BoxSettings(HW, OPTIONS))
    assert says in str(e.value)
