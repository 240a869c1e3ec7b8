"""Files that may grow for months: rotation of JSON lines, the newest images."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from edgedla.errors import RunError, UsageError
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.newest import Newest
from edgedla.runtime.outputs.sinks import AnnotatedImages, AnnotatedVideo, JsonLines
from edgedla.runtime.pipeline.config import load_config

pytest.importorskip("cv2", reason="OpenCV is not installed")

NUMBERED = (("n",),)


def numbers(path):
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_a_full_json_lines_file_is_rotated_and_the_oldest_removed(tmp_path, keep):
    path = tmp_path / "r.jsonl"
    # A line is {"n":10} and its end: 9 bytes, of which four fit into 40.
    sink = JsonLines(str(path), 40e-6, keep)
    for n in range(10, 40):
        sink.write_document({"n": n})
    sink.close()
    files = [path, *(tmp_path / f"r.jsonl.{k}" for k in range(1, keep + 1))]
    assert sorted(os.listdir(tmp_path)) == sorted(f.name for f in files)
    assert numbers(path) == [38, 39]
    for k, file in enumerate(files[1:]):
        assert numbers(file) == list(range(34 - 4 * k, 38 - 4 * k))
    assert all(f.stat().st_size <= 40 for f in files)


def test_without_a_size_limit_a_file_is_appended_to_and_never_rotated(tmp_path):
    path = tmp_path / "r.jsonl"
    for start in (0, 50):
        sink = JsonLines(str(path), kinds=NUMBERED)
        for n in range(start, start + 50):
            sink.write_document({"n": n})
        sink.close()
    assert numbers(path) == list(range(100))


@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
def test_a_file_moved_by_logrotate_is_reopened(tmp_path, how):
    path, moved = tmp_path / "r.jsonl", tmp_path / "r.jsonl-20260101"
    sink = JsonLines(str(path), kinds=NUMBERED)
    sink.write_document({"n": 1})
    if how == "removed":
        path.unlink()
    else:
        path.rename(moved)
    if how == "replaced":
        path.write_text('{"n":0}\n')
    sink.write_document({"n": 2})
    sink.write_document({"n": 3})
    sink.close()
    assert numbers(path) == ([0, 2, 3] if how == "replaced" else [2, 3])
    assert how == "removed" or numbers(moved) == [1]


def test_a_foreign_file_that_replaces_the_output_is_not_written_to(tmp_path):
    path = tmp_path / "r.jsonl"
    sink = JsonLines(str(path), kinds=NUMBERED)
    sink.write_document({"n": 1})
    path.unlink()
    path.write_text("mine\n")
    with pytest.raises(UsageError):
        sink.write_document({"n": 2})
    sink.close()
    assert path.read_text() == "mine\n"


def test_with_a_clock_in_the_past_the_runs_own_files_count_as_newest(tmp_path):
    """A board without a battery starts in 1970, with films of last year on its disk."""
    newest, files = Newest(2), [tmp_path / name for name in "abcde"]
    for file in files:
        file.touch()
    for number, file in enumerate(files[:3]):
        os.utime(file, (2e9 + number, 2e9 + number))
    for number, file in enumerate(files[3:]):
        os.utime(file, (number, number))
        newest.wrote(file)
        there = files[: 4 + number]
        assert newest.surplus(there)[-1] == files[1 + number]
    assert newest.surplus(files) == files[:3]
    assert Newest(0).surplus(files) == []


def test_a_restart_counts_existing_rotated_files(tmp_path):
    path = tmp_path / "r.jsonl"
    for n in (10, 11):
        sink = JsonLines(str(path), 10e-6, 2, NUMBERED)
        sink.write_document({"n": n})
        sink.close()
    assert (numbers(path), numbers(tmp_path / "r.jsonl.1")) == ([11], [10])


def test_a_line_larger_than_a_file_is_kept_whole(tmp_path):
    path = tmp_path / "r.jsonl"
    sink = JsonLines(str(path), 10e-6, 2)
    for n in (10**30, 10):
        sink.write_document({"n": n})
    sink.close()
    assert (numbers(path), numbers(tmp_path / "r.jsonl.1")) == ([10], [10**30])


def test_a_folder_at_a_rotation_path_is_a_run_error(tmp_path):
    (tmp_path / "r.jsonl.1" / "x").mkdir(parents=True)
    sink = JsonLines(str(tmp_path / "r.jsonl"), 10e-6, 1)
    sink.write_document({"n": 10})
    with pytest.raises(RunError, match="cannot write"):
        sink.write_document({"n": 11})
    (tmp_path / "r.jsonl.1" / "x").rmdir()
    (tmp_path / "r.jsonl.1").rmdir()
    sink.write_document({"n": 12})
    sink.close()
    assert (numbers(tmp_path / "r.jsonl"), numbers(tmp_path / "r.jsonl.1")) == ([12], [10])


def test_a_pipe_is_not_rotated():
    read, write = os.pipe()
    sink = JsonLines(f"/dev/fd/{write}", 10e-6, 2)
    for n in (10, 11):
        sink.write_document({"n": n})
    sink.close()
    os.close(write)
    assert os.read(read, 100) == b'{"n":10}\n{"n":11}\n'
    os.close(read)


def result(index):
    return FrameResult(
        Frame(index, np.zeros((8, 8, 3), np.uint8), 0.0, time_s=1700000000.25), (), "fake", True, 1.0, 1.0
    )


def test_the_newest_images_stay_over_restarts(tmp_path):
    for start in (0, 4):
        sink = AnnotatedImages(str(tmp_path), keep=3)
        for index in range(start, start + 5):
            sink.write(result(index))
            assert len(os.listdir(tmp_path)) <= 3
    assert sorted(os.listdir(tmp_path)) == [f"frame_{n:06d}.jpg" for n in (6, 7, 8)]
    assert AnnotatedImages(str(tmp_path)).written == 0
    assert len(os.listdir(tmp_path)) == 3


def test_a_result_has_the_capture_time_of_its_frame():
    assert result(3).to_dict()["time"] == 1700000000.25


def test_rotation_settings_of_a_pipeline_file_are_read(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(
        "version: 1\nartifact: a\nsource: s\noutputs: {jsonl: r, rotate_mb: 1.5, keep: 2, images_keep: 7}\n"
        "metrics: {jsonl: m, rotate_mb: 0}\n"
    )
    config = load_config(str(path))
    assert (config.outputs.rotate_mb, config.outputs.keep, config.outputs.images_keep) == (1.5, 2, 7)
    assert config.metrics.rotate_mb == 0


@pytest.mark.parametrize("name", ["v.webm", "v", "v.mp4.part"])
def test_a_video_with_an_unknown_ending_is_refused_at_the_start(tmp_path, name):
    with pytest.raises(UsageError, match="no video of this kind"):
        AnnotatedVideo(str(tmp_path / name))
