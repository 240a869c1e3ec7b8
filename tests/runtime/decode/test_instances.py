"""Instance masks, against a decoder written candidate by candidate and pixel by pixel."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode.detections import BoxSettings, NmsOptions
from edgedla.runtime.decode.instances import Instance, decode_instances
from edgedla.runtime.frames import Frame, FrameResult
from tests.runtime.candidate_cells import cells_above, sigmoid

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
HW, REG_MAX, CLASSES, K, SCALE = (32, 48), 4, 2, 6, 4
OPTIONS = NmsOptions(score=0.5, iou=1.0)
#: Nearer to the border between object and background than this, rounding decides.
UNSURE = 1e-3


def network(seed, dtype=np.float32):
    """(prototypes, raw heads of two scales)."""
    rng = np.random.default_rng(seed)
    prototypes = rng.normal(0, 1, (1, K, HW[0] // SCALE, HW[1] // SCALE)).astype(dtype)
    channels = 4 * REG_MAX + CLASSES + K
    return prototypes, [rng.normal(0, 1.2, (1, channels, HW[0] // s, HW[1] // s)).astype(dtype) for s in (8, 16)]


def reference(heads):
    """(score, class, box, coefficients) of each cell above the threshold, best first."""
    expected = [cell[:4] for head in heads for cell in cells_above(head, HW[0], REG_MAX, CLASSES, OPTIONS.score)]
    return sorted(expected, key=lambda e: -e[0])


def value_at(prototypes, coefficients, x, y):
    """The weighted sum of the prototypes at the centre of a network pixel, bilinearly between the four nearest cells."""
    h, w = prototypes.shape[2:]
    u, v = (x + 0.5) / SCALE - 0.5, (y + 0.5) / SCALE - 0.5
    u, v = min(max(u, 0), w - 1), min(max(v, 0), h - 1)
    x0, y0 = int(u), int(v)
    x1, y1 = min(x0 + 1, w - 1), min(y0 + 1, h - 1)
    total = 0.0
    for k, c in enumerate(coefficients):
        p = prototypes[0, k]
        top = float(p[y0, x0]) * (1 - (u - x0)) + float(p[y0, x1]) * (u - x0)
        low = float(p[y1, x0]) * (1 - (u - x0)) + float(p[y1, x1]) * (u - x0)
        total += c * (top * (1 - (v - y0)) + low * (v - y0))
    return total


def check(found, prototypes, heads):
    wanted = reference(heads)
    assert len(found) == len(wanted) > 10
    pixels = 0
    for one, (score, cls, box, coefficients) in zip(found, wanted):
        assert (one.score, one.cls) == (pytest.approx(score, abs=1e-5), cls)
        assert one.box_xyxy == pytest.approx(box, abs=2e-3)
        left, top, right, bottom = (int(v) for v in one.mask_xyxy)
        assert one.mask.shape == (bottom - top, right - left)
        for y in range(HW[0]):
            for x in range(HW[1]):
                inside = box[0] <= x + 0.5 < box[2] and box[1] <= y + 0.5 < box[3]
                edge = min(abs(x + 0.5 - b) for b in box[::2]) < UNSURE or min(abs(y + 0.5 - b) for b in box[1::2]) < UNSURE
                if edge:
                    continue
                assert inside == (left <= x < right and top <= y < bottom)
                if not inside:
                    continue
                value = value_at(prototypes, coefficients, x, y)
                if abs(value) > UNSURE:
                    pixels += 1
                    assert bool(one.mask[y - top, x - left]) == (sigmoid(value) > 0.5), (x, y, value)
    assert pixels > 500


@pytest.mark.parametrize("seed", range(2))
def test_instance_masks_equal_the_reference_pixel_by_pixel(seed):
    prototypes, heads = network(seed)
    check(decode_instances([*heads, prototypes], BoxSettings(HW, OPTIONS), REG_MAX), prototypes, heads)


def test_decoded_rows_and_reordered_outputs_give_equal_instances():
    prototypes, heads = network(3)
    rows = []
    for score, cls, (x1, y1, x2, y2), coefficients in reference(heads):
        scores = [score if c == cls else 0.0 for c in range(CLASSES)]
        rows.append([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, *scores, *coefficients])
    table = np.asarray(rows, np.float32)[None]
    whole = decode_instances([*heads, prototypes], BoxSettings(HW, OPTIONS), REG_MAX)
    for outputs in ([table, prototypes], [prototypes, table.transpose(0, 2, 1)]):
        found = decode_instances(outputs, BoxSettings(HW, OPTIONS), REG_MAX)
        assert [f.cls for f in found] == [f.cls for f in whole]
        same = sum(int((a.mask == b.mask).all()) for a, b in zip(found, whole) if a.mask.shape == b.mask.shape)
        assert same >= len(whole) - 1
    cuts = (4 * REG_MAX, 4 * REG_MAX + CLASSES)
    parts = [part for head in heads for part in np.split(head, cuts, axis=1)]
    again = decode_instances([prototypes, *parts], BoxSettings(HW, OPTIONS), REG_MAX)
    assert [a.to_dict() for a in again] == [w.to_dict() for w in whole]


def test_a_head_of_the_prototypes_size_is_recognised_by_its_order():
    prototypes, heads = network(6)
    fine = np.full((1, heads[0].shape[1], *prototypes.shape[2:]), -20, np.float32)
    whole = decode_instances([*heads, prototypes], BoxSettings(HW, OPTIONS), REG_MAX)
    again = decode_instances([fine, *heads, prototypes], BoxSettings(HW, OPTIONS), REG_MAX)
    assert [a.to_dict() for a in again] == [w.to_dict() for w in whole]


def test_masks_map_to_the_frame_like_boxes():
    prototypes, heads = network(4)
    geometry = Geometry.fit((480, 640), HW)
    plain = decode_instances([*heads, prototypes], BoxSettings(HW, OPTIONS), REG_MAX)
    placed = {p.score: p for p in decode_instances([*heads, prototypes], BoxSettings(HW, OPTIONS, geometry), REG_MAX)}
    assert len(placed) > 10
    (sx, sy), (ox, oy) = geometry.step_xy, geometry.offset_xy
    for p in plain:
        if p.score in placed:
            x1, y1, x2, y2 = p.mask_xyxy
            wanted = ((x1 - ox) * sx, (y1 - oy) * sy, (x2 - ox) * sx, (y2 - oy) * sy)
            assert placed[p.score].mask_xyxy == pytest.approx(wanted)
            assert (placed[p.score].mask == p.mask).all()


def test_mask_outlines_enclose_the_mask_and_move_with_it():
    mask = np.zeros((10, 20), bool)
    mask[2:8, 3:15] = True
    one = Instance((100, 50, 140, 70), 0.9, 1, "cup", None, mask, (100.0, 50.0, 140.0, 70.0))
    # A network pixel is two frame pixels wide: the outline runs through the centres of the outermost ones.
    assert sorted(one.polygons[0]) == [(107.0, 55.0), (107.0, 65.0), (129.0, 55.0), (129.0, 65.0)]
    assert one.moved(10, 20).polygons[0][0] == (one.polygons[0][0][0] + 10, one.polygons[0][0][1] + 20)
    assert one.to_dict()["polygons"][0][0] == [107.0, 55.0]
    assert Instance((0, 0, 1, 1), 0.5, 0).polygons == []


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ([np.zeros((1, 40, 500), np.float32)], "prototypes"),
        ([np.zeros((1, K, 8, 12), np.float32)], "prototypes"),
        ([np.zeros((1, K, 7, 12), np.float32), np.zeros((1, 12, 500), np.float32)], "whole number of times"),
        ([np.zeros((1, K, 8, 8), np.float32), np.zeros((1, 12, 500), np.float32)], "whole number of times"),
        ([np.zeros((1, K, 8, 12), np.float32), np.zeros((1, 10, 500), np.float32)], "hold no class"),
    ],
)
def test_wrong_instance_output_shapes_are_refused(outputs, says):
    with pytest.raises(RunError) as e:
        decode_instances(outputs, BoxSettings(HW, OPTIONS), REG_MAX)
    assert says in str(e.value)


def test_nan_and_infinity_give_no_instances():
    prototypes, heads = network(5)
    heads[0][0, -1] = np.nan
    prototypes[0, 0, :4] = np.inf
    with np.errstate(invalid="ignore"):
        found = decode_instances([*heads, prototypes], BoxSettings(HW, OPTIONS), REG_MAX)
    assert all(math.isfinite(v) for one in found for v in one.box_xyxy)
    quiet = [np.full_like(h, -20) for h in heads]
    assert decode_instances([*quiet, prototypes], BoxSettings(HW, OPTIONS), REG_MAX) == []


def test_a_mask_is_drawn_inside_its_outline_only():
    from edgedla.runtime.outputs.draw import draw

    mask = np.ones((20, 30), bool)
    one = Instance((30, 40, 60, 60), 0.9, 0, "cup", None, mask, (30.0, 40.0, 60.0, 60.0))
    frame = Frame(0, np.zeros((100, 100, 3), np.uint8), 0.0)
    picture = draw(FrameResult(frame, (one,), "DLA0", True, 1.0, 2.0))
    assert picture[45:55, 35:55].any(axis=2).all()
    assert not picture[70:, :].any()
