"""A pipe waits for a writer and a device may never end: where a file is expected, both are refused at once."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Iterator, List

import pytest

from edgedla.cli.main import exit_code_of
from edgedla.cli.running.source_option import sources_of
from edgedla.errors import DocumentError
from edgedla.io.files import open_plain, sha256_of, without_links
from edgedla.sweep.journal import Journal

MODEL = str(Path(__file__).resolve().parents[2] / "examples/00_shapes_detector/shapes_detector.onnx")
TARGET = ["--target", "orin-nx-16gb"]
BUILD = ["build", MODEL, *TARGET, "--backend", "host", "-o", "out"]

pytestmark = pytest.mark.once


@pytest.fixture(params=["pipe", "socket", "device", "folder"])
def special(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    path = tmp_path / "special"
    with socket.socket(socket.AF_UNIX) as listening:
        if request.param == "pipe":
            os.mkfifo(path)
        elif request.param == "socket":
            # Relative: a socket's path may have about 100 characters.
            monkeypatch.chdir(tmp_path)
            listening.bind("special")
        elif request.param == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
        yield str(path)


@pytest.mark.parametrize(
    "args",
    [
        ["check", "{s}", *TARGET],
        ["check", MODEL, *TARGET, "--profile", "{s}"],
        ["check", MODEL, *TARGET, "--baseline", "{s}"],
        ["place", MODEL, *TARGET, "--verify", "{s}"],
        [*BUILD, "--calib", "{s}", "--precision", "int8"],
        [*BUILD, "--placement", "{s}"],
        ["inspect", "{s}"],
        ["evaluate", "{s}", "--data", "{s}"],
        ["acceptance", "show", "{s}"],
        ["acceptance", "ingest", "{s}", "--into", "out"],
    ],
    ids=lambda args: " ".join(args[:1] + args[-2:]).replace(MODEL, "MODEL"),
)
def test_a_special_file_is_refused_with_its_name(
    args: List[str], special: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code_of([a.format(s=special) for a in args]) in (2, 3, 4)
    assert "special" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_a_pipeline_that_is_a_pipe_is_refused(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"p.{ending}"
    os.mkfifo(path)
    for args in (["run", str(path)], ["bundle", "--pipeline", str(path), "-o", str(tmp_path / "b.pyz")]):
        assert exit_code_of(args) in (2, 3)
        assert "a pipe or device, not a file" in capsys.readouterr().err


def test_helpers_refuse_special_files_and_open_plain_ones(special: str, tmp_path: Path) -> None:
    for call in (open_plain, sha256_of, lambda p: without_links(p, os.O_WRONLY | os.O_APPEND)):
        with pytest.raises(OSError):
            call(special)
    plain = tmp_path / "plain"
    plain.write_bytes(b"x")
    with open_plain(plain) as f:
        assert f.read() == b"x"


def test_a_journal_that_is_a_pipe_is_named(tmp_path: Path) -> None:
    from edgedla.errors import EnvironmentMissing

    os.mkfifo(tmp_path / "j")
    with pytest.raises(EnvironmentMissing, match="j: cannot be read: a pipe or device, not a file"):
        Journal(tmp_path / "j").rows()


def test_sources_are_read_from_no_special_file(special: str) -> None:
    """A pipe without a writer would wait for ever; - is the way to hand them over."""
    with pytest.raises(DocumentError, match="special"):
        sources_of((), special, lambda line: None)


def test_an_inventory_of_boards_is_no_special_file(
    special: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDGEDLA_BOARDS", special)
    assert exit_code_of(["board", "list"]) in (2, 3, 4)
    assert "special" in capsys.readouterr().err
