"""Lines are appended only to our own files; rotated files from a larger `keep` are removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from edgedla.errors import UsageError
from edgedla.runtime.outputs.own_lines import NUMBERS
from edgedla.runtime.outputs.sinks import JsonLines
from edgedla.runtime.pipeline.open_outputs import require_apart
from edgedla.runtime.pipeline.settings import MetricsConfig, OutputConfig, PipelineConfig

ROW = {"frame": 1, "time": 2.0, "results": []}
OTHERS = {
    "model.onnx": b"\x08\x07\x12\x04onnx",
    "frame.png": b"\x89PNG\r\n\x1a\n",
    "pipeline.yaml": b"version: 1\nartifact: a\n",
    "summary.json": b'{\n "simulated": true\n}\n',
    "small.json": b'{"document":"edgedla.check","schema_version":1}\n',
    "training.jsonl": b'{"epoch":1,"loss":0.5}\n',
    "list.json": b"[1, 2]\n",
    "deep.json": b"[" * 100_000,
    "line.txt": b"no end",
    "zeros.txt": b"\0" * 50 + b"no end",
    "pretty.json": b'{"time": 5,\n "epoch": 1}\n',
}


@pytest.mark.parametrize("name", OTHERS)
def test_json_lines_are_not_appended_to_a_foreign_file(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(OTHERS[name])
    with pytest.raises(UsageError, match="something other"):
        JsonLines(str(path))
    assert path.read_bytes() == OTHERS[name]


def test_metrics_are_not_appended_to_a_results_file(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    with pytest.raises(UsageError):
        JsonLines(str(path), kinds=NUMBERS)


@pytest.mark.parametrize("before", ['{"frame":0,"ti', "\0" * 500, "\0" * 500 + '{"frame":0,"ti', '{"frame":0,"ti\0\0'])
def test_a_first_line_cut_by_a_power_cut_does_not_stop_later_runs(tmp_path, before):
    """The run after the next one was refused, with the exit code after which a service is not started again."""
    path = tmp_path / "r.jsonl"
    path.write_text(before)
    for _ in range(3):
        sink = JsonLines(str(path))
        sink.write_document(ROW)
        sink.close()
    assert [json.loads(line) for line in path.read_text().splitlines()[1:]] == [ROW] * 3


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("", 1),
        (json.dumps(ROW) + "\n", 2),
        (json.dumps({"event": "in", "id": "in-1", "state": "begin"}) + "\n", 2),
        (json.dumps(ROW) + '\n{"frame":2,"ti', 3),
        ('{"frame":0,"ti', 2),
    ],
)
def test_an_own_file_is_continued_on_a_new_line(tmp_path, before, lines):
    path = tmp_path / "r.jsonl"
    path.write_text(before)
    sink = JsonLines(str(path))
    sink.write_document(ROW)
    sink.close()
    assert path.read_text().startswith(before)
    assert json.loads(path.read_text().splitlines()[lines - 1]) == ROW


def test_a_dangling_link_and_a_device_are_written_to(tmp_path):
    os.symlink(tmp_path / "there.jsonl", tmp_path / "link.jsonl")
    JsonLines(str(tmp_path / "link.jsonl")).close()
    assert (tmp_path / "there.jsonl").exists()
    JsonLines("/dev/null", 1.0).close()


def fill(path, keep, count):
    sink = JsonLines(str(path), 10e-6, keep)
    for _ in range(count):
        sink.write_document(ROW)
    sink.close()


@pytest.mark.parametrize("keep", [0, 2])
def test_lowering_keep_removes_own_rotated_files_only(tmp_path, keep):
    path = tmp_path / "r.jsonl"
    fill(path, 5, 9)
    # A backup of somebody's, and one of another program's behind a gap.
    shutil.copy(path, tmp_path / "r.jsonl.20260101")
    fill(path, keep, 1)
    kept = [f"r.jsonl.{n}" for n in range(1, keep + 1)]
    assert sorted(os.listdir(tmp_path)) == sorted(["r.jsonl", "r.jsonl.20260101", *kept])


def test_a_numbered_file_of_others_is_neither_replaced_nor_removed(tmp_path):
    path = tmp_path / "r.jsonl"
    (tmp_path / "r.jsonl.3").write_text("mine")
    with pytest.raises(UsageError, match=r"r\.jsonl\.3"):
        JsonLines(str(path), 10e-6, 3)
    fill(path, 2, 5)
    assert (tmp_path / "r.jsonl.3").read_text() == "mine"


def test_two_outputs_with_the_same_file_are_refused(tmp_path):
    path = str(tmp_path / "x.avi")
    for outputs, metrics in (
        (OutputConfig(jsonl=path, video=path), MetricsConfig()),
        (OutputConfig(jsonl=path), MetricsConfig(jsonl=f"{tmp_path}/./x.avi")),
    ):
        with pytest.raises(UsageError, match="writes to the same file"):
            require_apart(PipelineConfig(outputs=outputs, metrics=metrics))
    require_apart(PipelineConfig(outputs=OutputConfig(jsonl=path, images=str(tmp_path))))


def test_the_summary_does_not_replace_the_results(tmp_path, artifact):
    path = str(tmp_path / "r.json")
    words = ["run", str(artifact), "--source", "synthetic://?frames=1", "--jsonl", path, "-o", path]
    done = subprocess.run([sys.executable, "-m", "edgedla", *words], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "outputs.jsonl writes to the same file" in done.stderr
    assert not os.path.exists(path)
