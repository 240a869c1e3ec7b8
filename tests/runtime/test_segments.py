"""Video in several files: by time, by size, only the newest kept, playable after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from edgedla.errors import EdgedlaError
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.films.segments import Segments

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")


def result(number, at_s, hw=(48, 64)):
    rng = np.random.default_rng(number)
    image = rng.integers(0, 255, (*hw, 3), np.uint8)
    return FrameResult(Frame(number, image, at_s, None, 1_768_000_000.0 + at_s), (), "DLA0", True, 1.0, 2.0)


def frames_in(path):
    capture, count = cv2.VideoCapture(str(path)), 0
    while capture.read()[0]:
        count += 1
    return count


def test_files_are_cut_by_time_and_every_frame_is_in_one_of_them(tmp_path):
    sink = Segments(str(tmp_path / "v.avi"), 10.0, 1.0, 0.0)
    for n in range(35):
        sink.write(result(n, n / 10))
    sink.close()
    files = sorted(tmp_path.iterdir())
    assert [frames_in(f) for f in files] == [10, 10, 10, 5]
    assert all(f.name.startswith("v-2026") for f in files)


def test_files_are_cut_by_size_and_the_newest_stay(tmp_path):
    (tmp_path / "other.avi").write_bytes(b"not ours")
    sink = Segments(str(tmp_path / "v.avi"), 10.0, 0.0, 0.05, keep=2)
    for n in range(300):
        sink.write(result(n, n / 10))
    sink.close()
    files = [f for f in tmp_path.iterdir() if f.name != "other.avi"]
    assert len(files) == 2
    assert all(f.stat().st_size < 400_000 for f in files)
    assert (tmp_path / "other.avi").exists()


def test_a_dangling_link_at_a_segments_path_is_not_followed(tmp_path):
    """The film was made where it points; and the look for the oldest files ended the pipeline at it."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(1_768_000_000.0))
    link, outside = tmp_path / f"v-{stamp}.avi", tmp_path / "outside"
    link.symlink_to(outside)
    (tmp_path / "v-20200101-000000.avi").symlink_to(outside)
    sink = Segments(str(tmp_path / "v.avi"), 10.0, 1.0, 0.0, keep=2)
    for n in range(35):
        sink.write(result(n, n / 10))
    sink.close()
    assert not outside.exists()
    assert sum(frames_in(f) > 0 for f in tmp_path.glob("v-*.avi")) == 2


def test_files_with_longer_names_than_segments_are_not_removed(tmp_path):
    others = ["v-2.avi", "v-2-20260101-000000.avi", "v-20260101.avi"]
    for name in [*others, "v-20250101-000000.avi", "v-20250101-000000-2.avi"]:
        (tmp_path / name).write_bytes(b"film")
    sink = Segments(str(tmp_path / "v.avi"), 10.0, 1.0, 0.0, keep=1)
    for n in range(15):
        sink.write(result(n, n / 10))
    sink.close()
    names = {f.name for f in tmp_path.iterdir()}
    assert set(others) < names
    assert len(names) == len(others) + 1


def test_files_of_the_same_second_do_not_overwrite_each_other(tmp_path):
    sink = Segments(str(tmp_path / "v.avi"), 10.0, 0.1, 0.0)
    for n in range(9):
        sink.write(result(n, n / 20))
    sink.close()
    assert sum(frames_in(f) for f in tmp_path.iterdir()) == 9


@pytest.mark.parametrize("name", ["v.webm", "v"])
def test_an_unwritable_segment_path_is_refused_at_the_start(tmp_path, name):
    with pytest.raises(EdgedlaError):
        Segments(str(tmp_path / name), 10.0, 1.0, 0.0)


def test_after_a_kill_all_files_can_be_played(tmp_path):
    code = (
        "import sys, time\nsys.path.insert(0, sys.argv[2])\n"
        "from test_segments import Segments, result\n"
        "sink = Segments(sys.argv[1], 10.0, 1.0, 0.0)\n"
        "for n in range(10**6):\n    sink.write(result(n, n / 10))\n    time.sleep(0.002)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "v.avi"), os.path.dirname(__file__)])
    end = time.monotonic() + 30
    # A file is finished while the next ones grow already.
    while len(list(tmp_path.iterdir())) < 5 and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    files = sorted(tmp_path.iterdir(), key=lambda f: f.stat().st_mtime_ns)
    assert len(files) >= 5
    assert [frames_in(f) for f in files[:3]] == [10, 10, 10]
