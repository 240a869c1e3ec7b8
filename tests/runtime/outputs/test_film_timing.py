"""A recorded video lasts as long as what it shows."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

from edgedla.errors import RunError
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs import sinks
from edgedla.runtime.outputs.films.segments import Segments
from edgedla.runtime.outputs.sinks import AnnotatedVideo
from edgedla.runtime.outputs.timing import MOST_STILL_S, Timing

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")


def filmed(times, rate):
    """Which of the frames of these times stands at each place of the film."""
    timing, film = Timing(rate), []
    for number, at_s in enumerate(times):
        missing = timing.missing(at_s)
        if missing is not None:
            film += film[-1:] * missing + [number]
            timing.wrote(missing + 1)
    return film


def test_a_dropped_frame_repeats_the_previous_one():
    assert filmed([0.0, 0.04, 0.16, 0.2], 25.0) == [0, 1, 1, 1, 2, 3]


@pytest.mark.parametrize("rate", [25.0, 25 / 3, 29.97, 59.94])
def test_frames_at_an_exact_rate_are_written_once_each(rate):
    assert filmed([n / rate for n in range(5000)], rate) == list(range(5000))


def test_camera_jitter_neither_repeats_nor_drops_frames():
    rng = random.Random(1)
    assert filmed([100 + n / 30 + rng.uniform(0, 0.02) for n in range(900)], 30.0) == list(range(900))


@pytest.mark.parametrize("real", [10.0, 29.5, 31.0, 60.0])
def test_a_camera_with_a_wrong_stated_rate_is_recorded_in_real_time(real):
    assert len(filmed([n / real for n in range(int(real * 60))], 30.0)) == pytest.approx(1800, abs=2)


def test_an_outage_is_skipped_and_a_clock_that_jumps_back_restarts():
    gone = MOST_STILL_S + 1
    assert filmed([0.0, 0.1, gone, gone + 0.1, 5.0, 5.1], 10.0) == list(range(6))


def test_pictures_without_a_clock_are_written_once():
    assert filmed([None] * 5, 25.0) == list(range(5))


def result(number, clock_s):
    image = np.full((48, 64, 3), number * 20, np.uint8)
    frame = Frame(number, image, 1000.0 + number / 1000, clock_s=clock_s)
    return FrameResult(frame, (), "fake", True, 1.0, 2.0)


def levels(path):
    film, found = cv2.VideoCapture(str(path)), []
    while True:
        good, image = film.read()
        if not good:
            return found
        found.append(round(float(image[40:].mean()) / 20))


def test_the_file_of_a_film_with_drops_has_its_length(tmp_path):
    video = AnnotatedVideo(str(tmp_path / "v.avi"), 10.0)
    for number, clock_s in ((1, 7.0), (2, 7.1), (5, 7.4), (6, 7.5)):
        video.write(result(number, clock_s))
    video.close()
    assert levels(tmp_path / "v.avi") == [1, 2, 2, 2, 5, 6]


HOLDER = """
import sys
from edgedla.runtime.outputs.sinks import claimed
held = claimed(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_film_that_another_process_writes_is_refused(tmp_path):
    path = str(tmp_path / "v.avi")
    late = AnnotatedVideo(path, 10.0)
    command = [sys.executable, "-c", HOLDER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="another process is writing this video"):
            AnnotatedVideo(path, 10.0)
        with pytest.raises(RunError, match="another process is writing this video"):
            late.write(result(1, 0.0))
        late.close()
        holder.kill()
    # As a reload does: the next one begins before the last one has ended.
    videos = [AnnotatedVideo(path, 10.0) for _ in range(2)]
    for video in videos:
        video.write(result(1, 0.0))
    for video in videos:
        video.close()
    assert levels(path) == [1]


def test_repeats_do_not_delay_waiting_frames(tmp_path, monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr(sinks.time, "monotonic", lambda: now[0])
    video = AnnotatedVideo(str(tmp_path / "v.avi"), 10.0)
    video.write(result(1, 0.0))
    written = []

    class Slow:
        def write(self, image):
            now[0] += 0.2
            written.append(image)

    monkeypatch.setattr(video, "_writer", Slow())
    for number in range(1, 5):
        video.write(result(number, float(number)))
    # A second's nine repeats would take 1.8 s: those of half a second are written, and the picture.
    assert len(written) == 4 * 4
    assert [r.message for r in caplog.records if "too slow for 10 frames per second" in r.message]
    assert len(caplog.records) == 1


def test_segments_of_a_video_file_are_cut_by_the_files_clock(tmp_path):
    segments = Segments(str(tmp_path / "v.avi"), 10.0, seconds=1.0, mb=0)
    for number in range(20):
        segments.write(result(number % 10, number / 10))
    segments.close()
    assert [len(levels(p)) for p in sorted(tmp_path.glob("v-*.avi"))] == [10, 10]
