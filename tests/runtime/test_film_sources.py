"""Videos as sources: read in full, or at their own pace; `max_rate` and `every` use the video's own clock."""

from __future__ import annotations

import time

import numpy as np
import pytest

from edgedla.errors import DataError
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.open_pipeline import make_capture
from edgedla.runtime.pipeline.settings import PipelineConfig, SourceConfig
from edgedla.runtime.sources import open_source
from edgedla.runtime.sources.reader import CaptureOptions
from tests.runtime.field.field_pipelines import engine, lane, numbers, pipeline

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
FRAMES, RATE = 50, 25.0


@pytest.fixture
def film(tmp_path):
    path = str(tmp_path / "film.avi")
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), RATE, (32, 32))
    for _ in range(FRAMES):
        writer.write(np.zeros((32, 32, 3), np.uint8))
    writer.release()
    return path


def read(capture, latency_ms=0.0, every=1):
    """(numbers of the frames that a model saw, the summary)."""
    seen = []
    lanes = [lane(engine(latency_ms, decode=lambda b, g: [[] for _ in numbers(b, g)]), [""])]
    summary = pipeline([capture], lanes, seen, every={"": every}).run()
    return [r.frame for r in seen], summary


def capture_of(film, options=None, every_frame=None, **settings):
    source = SourceConfig(film, options or {}, **settings)
    return make_capture("", PipelineConfig(source=source, capture=CaptureOptions(every_frame=every_frame)))


@pytest.mark.parametrize("latency_ms", [0.0, 8.0])
def test_max_rate_of_a_video_file_skips_frames_by_its_clock(film, latency_ms):
    frames, summary = read(capture_of(film, max_rate=5.0), latency_ms)
    assert [f.index for f in frames] == list(range(0, FRAMES, 5))
    assert (summary["frames"]["skipped"], summary["frames"]["dropped"]) == (40, 0)


def test_every_nth_frame_counts_frames_of_a_rate_limited_video_file(film):
    frames, _ = read(capture_of(film, max_rate=5.0), every=2)
    assert [f.index for f in frames] == list(range(0, FRAMES, 10))


def test_frames_of_a_video_file_have_its_clock(film):
    frames, _ = read(capture_of(film))
    assert [f.clock_s for f in frames] == [n / RATE for n in range(FRAMES)]
    frames, _ = read(capture_of(film, {"rate": 500.0}))
    assert frames[-1].clock_s == frames[-1].index / 500, "it is played twenty times as fast"


def test_a_rate_that_is_a_unit_of_time_is_no_clock(film, monkeypatch):
    monkeypatch.setattr("edgedla.runtime.sources.opencv.MOST_RATE", 20)
    frames, _ = read(capture_of(film))
    assert [f.clock_s for f in frames] == [None] * FRAMES
    capture = capture_of(film, every_frame=False)
    capture.start()
    capture.stop(2.0)
    assert capture.rate == 25.0


def test_a_video_file_that_may_drop_frames_is_played_in_real_time(film):
    began = time.monotonic()
    frames, summary = read(capture_of(film, every_frame=False), latency_ms=100.0)
    assert time.monotonic() - began == pytest.approx(FRAMES / RATE, abs=0.8)
    assert summary["frames"]["dropped"] > 20
    assert len(frames) + summary["frames"]["dropped"] == FRAMES
    assert frames[0].index < 3
    assert frames[-1].index == FRAMES - 1


def test_a_folder_without_a_rate_has_no_pace_and_is_read_in_full(tmp_path):
    for number in range(12):
        cv2.imwrite(str(tmp_path / f"{number:02}.png"), np.zeros((8, 8, 3), np.uint8))
    frames, _ = read(capture_of(str(tmp_path), every_frame=False), latency_ms=20.0)
    assert [(f.index, f.clock_s) for f in frames] == [(n, None) for n in range(12)]
    frames, _ = read(capture_of(str(tmp_path), {"rate": 100.0}), latency_ms=0.0)
    assert frames[-1].clock_s == frames[-1].index / 100


def test_frames_without_a_clock_are_paced_and_none_is_skipped(tmp_path):
    uri = "synthetic://?pattern=counter&width=16&height=16&frames=10"
    began = time.monotonic()
    frames, summary = read(Capture(lambda: open_source(uri), max_rate=20.0))
    assert [f.index for f in frames] == list(range(10))
    assert summary["frames"]["skipped"] == 0
    assert 0.4 <= time.monotonic() - began < 2.0


def test_a_camera_is_timed_by_its_capture():
    uri = "synthetic://?pattern=counter&width=16&height=16&frames=5&rate=100"
    frames, _ = read(Capture(lambda: open_source(uri)))
    assert all(f.clock_s == f.captured_s for f in frames)


def test_a_video_without_a_frame_is_an_error(tmp_path):
    """OpenCV opens it, and so it does a video whose codec it cannot decode: exit code 0 would call that a finished run."""
    path = str(tmp_path / "empty.avi")
    cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), RATE, (32, 32)).release()
    if not cv2.VideoCapture(path).isOpened():
        pytest.skip("this OpenCV does not open an empty video")
    with pytest.raises(DataError, match="ends without a frame"):
        read(capture_of(path))
