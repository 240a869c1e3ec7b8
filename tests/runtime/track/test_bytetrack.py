"""ByteTrack: ids through crossings, occlusions and weak detections; ids are unique within a frame."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.runtime.decode.dense import ClassScore
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.track.bytetrack import ByteTracker, TrackOptions, _Track
from tests.amounts import examples

pytest.importorskip("lap", reason="lap is not installed")


def box(x, y, score=0.9, cls=0, side=20.0):
    return Detection((x, y, x + side, y + side), score, cls)


def numbers(results):
    return [r.track for r in results]


def test_two_crossing_objects_keep_their_track_ids():
    tracker = ByteTracker()
    for n in range(40):
        left, right = box(4.0 * n, 10.0), box(160.0 - 4.0 * n, 18.0)
        given = [left, right] if n % 2 else [right, left]
        found = dict(zip(("left", "right") if n % 2 else ("right", "left"), numbers(tracker(given))))
        if n == 0:
            first = found
        assert found == first, n


@pytest.mark.parametrize(("gap", "kept"), [(1, True), (10, True), (30, True), (31, False)])
def test_a_hidden_object_keeps_its_track_id_within_lost_frames(gap, kept):
    tracker = ByteTracker()
    for n in range(10):
        (before,) = numbers(tracker([box(3.0 * n, 10.0)]))
    for _ in range(gap):
        tracker([])
    (after,) = numbers(tracker([box(3.0 * (10 + gap), 10.0)]))
    assert (after == before) is kept


def test_a_weak_detection_keeps_a_track_and_begins_none():
    tracker = ByteTracker()
    assert numbers(tracker([box(0, 0, 0.3)])) == [None]
    assert numbers(tracker([box(0, 0, 0.9)])) == [1]
    assert numbers(tracker([box(1, 0, 0.3)])) == [1]
    assert numbers(tracker([box(2, 0, 0.05)])) == [None]


def test_objects_of_different_classes_have_separate_tracks():
    tracker = ByteTracker()
    assert numbers(tracker([box(0, 0, cls=0), box(0, 0, cls=1)])) == [1, 2]
    assert numbers(tracker([box(0, 0, cls=1), box(0, 0, cls=0)])) == [2, 1]


def test_an_object_seen_once_is_not_kept():
    tracker = ByteTracker()
    tracker([box(0, 0)])
    tracker([])
    assert numbers(tracker([box(0, 0)])) == [2]


def test_results_that_cannot_be_tracked_pass_unchanged():
    tracker = ByteTracker()
    score, broken = ClassScore(1, 0.5), Detection((float("nan"), 0, 1, 1), 0.9, 0)
    assert tracker([score, broken]) == [score, broken]


def test_a_tracked_result_has_its_track_id_in_json():
    (tracked,) = ByteTracker()([box(0, 0)])
    assert tracked.to_dict()["track"] == 1
    assert "track" not in box(0, 0).to_dict()


def test_the_filter_is_the_general_kalman_filter_of_position_and_velocity():
    """Written out with matrices, coordinate by coordinate."""
    rng = np.random.default_rng(0)
    track, share = _Track(1, box(10, 20)), 1 / 20
    mean = [np.asarray([v, 0.0]) for v in (20.0, 30.0, 20.0, 20.0)]
    var = [np.diag([(2 * share * 20) ** 2, (10 / 160 * 20) ** 2]) for _ in range(4)]
    step, look = np.asarray([[1.0, 1.0], [0.0, 1.0]]), np.asarray([[1.0, 0.0]])
    for n in range(20):
        h = max(mean[3][0], 1.0)
        noise = np.diag([(share * h) ** 2, (h / 160) ** 2])
        mean = [step @ m for m in mean]
        var = [step @ v @ step.T + noise for v in var]
        track.predict()
        seen = box(10 + 2 * n + rng.normal(), 20 + rng.normal(), side=20 + rng.normal())
        x1, y1, x2, y2 = seen.box_xyxy
        h = max(mean[3][0], 1.0)
        for k, z in enumerate(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)):
            gain = var[k] @ look.T / (look @ var[k] @ look.T + (share * h) ** 2)
            mean[k] = mean[k] + (gain * (z - mean[k][0]))[:, 0]
            var[k] = var[k] - gain @ look @ var[k]
        track.update(seen)
        assert np.allclose(track._mean, np.stack(mean, 1))
        assert np.allclose(track._var, np.stack(var))


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80), st.floats(0, 1), st.integers(0, 1)), max_size=6), max_size=12
    )
)
def test_track_ids_are_unique_in_a_frame_and_no_result_is_lost(frames):
    tracker, most = ByteTracker(TrackOptions(lost_frames=3)), 0
    for frame in frames:
        given_ = [box(float(x), float(y), s, c) for x, y, s, c in frame]
        found = tracker(given_)
        assert [f.box_xyxy for f in found] == [g.box_xyxy for g in given_]
        ids = [n for n in numbers(found) if n is not None]
        assert len(ids) == len(set(ids))
        fresh = [n for n in ids if n > most]
        assert sorted(fresh) == list(range(most + 1, most + 1 + len(fresh)))
        most += len(fresh)
