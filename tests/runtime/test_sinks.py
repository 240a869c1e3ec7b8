"""Files that may grow for months: rotation of JSON lines, the newest images."""

from __future__ import annotations

import json
import multiprocessing
import os
from types import SimpleNamespace

import numpy as np
import pytest

from edgedla.errors import RunError, UsageError
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs import own_lines
from edgedla.runtime.outputs.films.newest import Newest
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


def _write(path, name, all_ready):
    sink = JsonLines(path, rotate_mb=0.002, keep=900, kinds=(("writer",),))
    all_ready.wait(60)
    for n in range(2000):
        sink.write_document({"writer": name, "n": n})
    sink.close()


@pytest.mark.once
def test_a_file_that_several_processes_write_and_rotate_loses_no_line(tmp_path):
    """One ended with exit code 6 where another had renamed the file first, and lines were lost where two renamed it."""
    spawned = multiprocessing.get_context("spawn")
    all_ready = spawned.Barrier(4)
    writers = [spawned.Process(target=_write, args=(str(tmp_path / "r.jsonl"), w, all_ready)) for w in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 4
    files = list(tmp_path.glob("r.jsonl*"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(files) > 3
    assert sorted((line["writer"], line["n"]) for line in lines) == [(w, n) for w in "abcd" for n in range(2000)]


@pytest.mark.parametrize("end", [b"}\n", b""])
def test_a_line_seen_by_half_while_another_process_writes_it_is_no_truncated_one(tmp_path, monkeypatch, end):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"frame":1,"results":[]')

    def the_other_writes(_):
        with path.open("ab") as file:
            file.write(end)

    monkeypatch.setattr(own_lines, "time", SimpleNamespace(sleep=lambda s: the_other_writes(s) if s else None))
    sink = JsonLines(str(path))
    sink.write_document({"n": 2})
    sink.close()
    # A line that stays cut is ended, so that the next one stands alone.
    assert path.read_bytes() == b'{"frame":1,"results":[]' + (end or b"\n") + b'{"n":2}\n'


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
    return FrameResult(Frame(index, np.zeros((8, 8, 3), np.uint8), 0.0, time_s=1700000000.25), (), "fake", True, 1.0, 1.0)


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
