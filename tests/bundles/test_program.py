"""The program of a bundle, without the pipeline that it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgedla.bundles import program
from edgedla.errors import RunError


def test_a_closed_output_ends_a_bundle_without_a_traceback() -> None:
    """As `python3 BUNDLE | head -1` closes it."""
    program = """
import edgedla.bundles.program as program
program._main = lambda *_: print("line\\n" * 100000) or 0
raise SystemExit(program.main(".", []))
"""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (RunError("no frame", where="a\x1b[2Jb"), 6, "error: a\\x1b[2Jb: no frame"),
        (RunError("no frame", where="foo://u:S3cret@cam/1"), 6, "error: foo://***@cam/1: no frame"),
        (OSError(28, "No space left on device"), 4, "error: No space left on device"),
        (ModuleNotFoundError("no", name="edgedla.x"), 4, "error: this bundle was made without edgedla.x\n  bundle the"),
        (MemoryError(), 4, "error: out of memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (KeyError("x"), 70, "bug in edgedla: KeyError: 'x'\n  EDGEDLA_DEBUG=1 prints the traceback"),
    ],
)
def test_every_error_of_a_bundle_has_a_message_and_its_exit_code(
    error: BaseException, code: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fails(*_: object) -> int:
        raise error

    monkeypatch.setattr(program, "_main", fails)
    monkeypatch.setattr(program, "_end_stdout", lambda: None)
    assert program.main(".", []) == code
    assert capsys.readouterr().err.startswith(f"bundle: {says}")


def test_with_closed_streams_the_exit_code_reports_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `python3 BUNDLE >&- 2>&-` closes them."""
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)

    def says(*_: object) -> int:
        program._print("line")
        return 0

    def fails(*_: object) -> int:
        raise RunError("no frame")

    for main, code in ((says, 0), (fails, 6)):
        monkeypatch.setattr(program, "_main", main)
        assert program.main(".", []) == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_disk_behind_stdout_ends_with_a_message() -> None:
    code = """
import edgedla.bundles.program as program
program._main = lambda *_: program._print("line") or 0
raise SystemExit(program.main(".", []))
"""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (4, "bundle: error: No space left on device\n")
