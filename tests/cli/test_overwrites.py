"""No command overwrites its input with its result."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import List

import pytest

from edgedla.cli.main import exit_code_of
from edgedla.io import files
from tests.models import node, onnx_model, save


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save(onnx_model([node("Relu", "x", "y", "relu")], {"x": (1, 8, 8, 8)}, {"y": (1, 8, 8, 8)}), tmp_path / "m.onnx")
    assert exit_code_of(["place", "m.onnx", "-o", "p.json"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "file", "word"),
    [
        (["check", "m.onnx", "--format", "json", "-o", "m.onnx"], "m.onnx", "reads this file and would overwrite it"),
        (["check", ".", "--format", "json", "-o", "./m.onnx"], "m.onnx", "a model's ending"),
        (["inspect", "m.onnx", "--format", "json", "-o", "m.onnx"], "m.onnx", "give -o another file"),
        (["fix", "m.onnx", "-o", "../{0}/m.onnx"], "m.onnx", "reads this file and would overwrite it"),
        (["place", "m.onnx", "--verify", "p.json", "--format", "json", "-o", "p.json"], "p.json", "give -o another"),
        (["place", "m.onnx", "--evaluate", "p.json", "--format", "json", "-o", "p.json"], "p.json", "give -o another"),
        (["inspect", "p.json", "-o", "p.json"], "p.json", "reads this file and would overwrite it"),
    ],
)
def test_an_output_path_that_is_an_input_is_refused(
    folder: Path, arguments: List[str], file: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / file).read_bytes()
    assert exit_code_of([text.format(folder.name) for text in arguments]) == 2
    assert word in capsys.readouterr().err
    assert (folder / file).read_bytes() == before


def test_an_earlier_output_file_is_replaced(folder: Path) -> None:
    assert exit_code_of(["place", "m.onnx", "-o", "p.json"]) == 0
    for _ in (1, 2):
        assert exit_code_of(["fix", "--list", "--report", "list.md"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [["fix", "-o", "out.onnx"], ["fix", "--dry-run", "--report", "out.html"], ["quantize", "--data", "d.npy", "-o", "out"]],
)
def test_an_unwritable_output_folder_is_reported_before_the_work(
    arguments: List[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(folder: str, name: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work was begun")

    save(onnx_model([node("Relu", "x", "y")]), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "open_partial", refuse)
    monkeypatch.setattr("edgedla.fixes.fix.fix", work)
    monkeypatch.setattr("edgedla.accuracy.quantize.quantize", work)
    assert exit_code_of([arguments[0], "m.onnx", *arguments[1:]]) == 4
    assert "cannot write: Permission denied" in capsys.readouterr().err
