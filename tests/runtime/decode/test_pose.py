"""Poses, against a decoder written candidate by candidate, number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode.detections import BoxSettings, NmsOptions
from edgedla.runtime.decode.pose import Pose, decode_pose
from edgedla.runtime.frames import Frame, FrameResult
from tests.runtime.candidate_cells import cells_above, sigmoid

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
INPUT_HW, REG_MAX, POINTS = (64, 96), 4, 5
OPTIONS = NmsOptions(score=0.3, iou=1.0)


def heads(seed, classes=2, dtype=np.float32):
    rng = np.random.default_rng(seed)
    channels = 4 * REG_MAX + classes + 3 * POINTS
    return [rng.normal(0, 1.5, (1, channels, 64 // s, 96 // s)).astype(dtype) for s in (8, 16)]


def reference(arrays, classes=2):
    """(score, class, box, points) of each cell above the threshold, best first."""
    expected = []
    for head in arrays:
        for score, cls, box, raw, (x, y, stride) in cells_above(head, 64, REG_MAX, classes, OPTIONS.score):
            points = [
                ((raw[3 * k] * 2 + x) * stride, (raw[3 * k + 1] * 2 + y) * stride, sigmoid(raw[3 * k + 2])) for k in range(POINTS)
            ]
            expected.append((score, cls, box, points))
    return sorted(expected, key=lambda e: -e[0])


def check(found, wanted, tolerance=2e-3):
    assert len(found) == len(wanted) > 20
    for pose, (score, cls, box, points) in zip(found, wanted):
        assert pose.score == pytest.approx(score, abs=1e-5)
        assert pose.cls == cls
        assert pose.box_xyxy == pytest.approx(box, abs=tolerance)
        assert np.allclose(pose.keypoints, points, atol=tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_pose_heads_equal_the_reference(seed):
    arrays = heads(seed)
    found = decode_pose(arrays, BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS)
    check(found, reference(arrays))


def test_a_pose_has_the_class_of_the_highest_score():
    (head, _) = heads(0)
    head[0, 4 * REG_MAX : 4 * REG_MAX + 2] = -9
    head[0, : 4 * REG_MAX + 2, 2, 2] = [*[0] * 4 * REG_MAX, 18, 25]
    (found,) = decode_pose([head], BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS)
    assert found.cls == 1


def test_pose_heads_split_into_three_outputs_decode_equally():
    arrays = heads(1)
    cuts = (4 * REG_MAX, 4 * REG_MAX + 2)
    parts = [part for head in arrays for part in np.split(head, cuts, axis=1)]
    whole = decode_pose(arrays, BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS)
    assert decode_pose(parts, BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS) == whole


def test_decoded_pose_rows_give_equal_poses():
    arrays = heads(2)
    rows = []
    for score, cls, (x1, y1, x2, y2), points in reference(arrays):
        scores = [score if c == cls else 0.0 for c in range(2)]
        rows.append([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, *scores, *(v for p in points for v in p)])
    table = np.asarray(rows, np.float32)[None]
    for output in (table, table.transpose(0, 2, 1)):
        check(decode_pose([output], BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS), reference(arrays))


def test_half_precision_finds_the_same_objects():
    arrays = heads(3, dtype=np.float16)
    found = decode_pose(arrays, BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS)
    check(found, reference(arrays), tolerance=0.05)


def test_keypoints_map_to_the_frame_like_boxes():
    arrays, geometry = heads(4), Geometry.fit((480, 640), INPUT_HW)
    plain = decode_pose(arrays, BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS)
    placed = {p.score: p for p in decode_pose(arrays, BoxSettings(INPUT_HW, OPTIONS, geometry), REG_MAX, POINTS)}
    step, offset = geometry.step_xy, geometry.offset_xy
    for p in plain:
        if p.score in placed:
            wanted = [((x - offset[0]) * step[0], (y - offset[1]) * step[1], seen) for x, y, seen in p.keypoints]
            assert np.allclose(placed[p.score].keypoints, wanted)
    assert len(placed) > 20


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ([np.zeros((1, 31, 8, 12), np.float32)], "hold no class"),
        ([np.zeros((1, 19, 500), np.float32)], "hold no class"),
        ([np.zeros((2, 21, 500), np.float32)], "an output of shape"),
        ([np.zeros((1, 33, 7, 12), np.float32)], "does not divide"),
    ],
)
def test_wrong_pose_output_shapes_are_refused(outputs, says):
    with pytest.raises(RunError) as e:
        decode_pose(outputs, BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS)
    assert says in str(e.value)


def test_nan_and_low_scores_give_no_poses():
    arrays = heads(5)
    arrays[0][0, -1] = np.nan
    found = decode_pose(arrays, BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS)
    assert all(math.isfinite(v) for p in found for point in p.keypoints for v in point)
    quiet = [np.full_like(a, -20) for a in heads(0)]
    assert decode_pose(quiet, BoxSettings(INPUT_HW, OPTIONS), REG_MAX, POINTS) == []


def test_a_pose_can_be_drawn_moved_tracked_and_written():
    from edgedla.runtime.outputs.draw import draw

    pose = Pose((10, 10, 60, 90), 0.9, 0, "person", None, tuple((20.0 + 2 * k, 15.0 + 4 * k, 0.9) for k in range(17)))
    frame = Frame(0, np.zeros((100, 100, 3), np.uint8), 0.0)
    plain = FrameResult(frame, (pose.moved(0, 0),), "DLA0", True, 1.0, 2.0)
    empty = FrameResult(frame, (), "DLA0", True, 1.0, 2.0)
    assert (draw(plain) != draw(empty)).any(axis=2)[20:80, 22:50].sum() > 50
    assert pose.moved(5, 7).keypoints[0] == (25.0, 22.0, 0.9)
    assert pose.to_dict()["keypoints"][1] == [22.0, 19.0, 0.9]
