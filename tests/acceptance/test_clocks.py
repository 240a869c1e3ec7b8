"""P8's locked clocks: stored, locked and restored, whatever happens in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from edgedla.acceptance.measure.clocks import STORED, locked, restore
from edgedla.acceptance.process import run_steps
from edgedla.acceptance.steps import STEPS


@pytest.fixture
def jetson_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jetson_clocks, and a sudo, that note how they were called; its exit code stands in tmp_path/exit."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = (
        f'echo "$@" >> {tmp_path}/calls\n[ "$1" = --store ] && echo gpu > "$2"\n'
        f'echo "a password is required"\nexit "$(cat {tmp_path}/exit 2>/dev/null || echo 0)"\n'
    )
    for name, text in (("jetson_clocks", script), ("sudo", 'shift\nexec "$@"\n')):
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def calls(base: Path) -> List[str]:
    return [line.split(" ")[0] for line in (base / "calls").read_text().splitlines()]


def test_clocks_are_stored_locked_and_given_back(jetson_clocks: Path) -> None:
    with locked(jetson_clocks) as refusal:
        assert refusal == ""
        assert calls(jetson_clocks) == ["--store", ""]
    assert calls(jetson_clocks) == ["--store", "", "--restore"]
    assert not (jetson_clocks / STORED).exists()


def test_clocks_are_restored_when_the_measurement_fails(jetson_clocks: Path) -> None:
    with pytest.raises(RuntimeError), locked(jetson_clocks):
        raise RuntimeError
    assert calls(jetson_clocks)[-1] == "--restore"


def test_a_failed_clock_restore_is_logged_and_can_be_retried(jetson_clocks: Path, caplog: pytest.LogCaptureFixture) -> None:
    with locked(jetson_clocks):
        (jetson_clocks / "exit").write_text("1")
    assert "locked still" in caplog.text
    (jetson_clocks / "exit").write_text("0")
    restore(jetson_clocks)
    assert calls(jetson_clocks) == ["--store", "", "--restore", "--restore"]
    assert not (jetson_clocks / STORED).exists()


def test_without_permission_clocks_are_not_locked(jetson_clocks: Path) -> None:
    (jetson_clocks / "exit").write_text("1")
    with locked(jetson_clocks) as refusal:
        assert refusal == "a password is required"
    assert calls(jetson_clocks) == ["--store"]


def test_a_missing_jetson_clocks_is_reported_as_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with locked(tmp_path) as refusal:
        assert refusal == "there is no jetson_clocks"


def test_clocks_are_restored_after_a_killed_step(jetson_clocks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step's process dies while they are locked; the run gives them back."""
    code = (
        "import json, os, pathlib, sys; from edgedla.acceptance.measure.clocks import locked\n"
        "with locked(pathlib.Path(json.load(open(sys.argv[2]))['work'])): os.kill(os.getpid(), 9)"
    )
    popen = subprocess.Popen
    monkeypatch.setattr(
        "edgedla.acceptance.process.subprocess.Popen",
        lambda command, **how: popen(
            [sys.executable, "-c", code, *command[3:]] if "edgedla.acceptance.child" in command else command, **how
        ),
    )
    report = run_steps(jetson_clocks / "run", only=("P8",), lock_clocks=True)
    assert "SIGKILL" in report["steps"][0]["reason"]
    assert calls(jetson_clocks) == ["--store", "", "--restore"]
    assert json.loads((jetson_clocks / "run/work/context.json").read_text())["lock_clocks"] is True
    assert STEPS["P8"].limit_s > 0
    restore(jetson_clocks / "run/work")
    assert calls(jetson_clocks)[-2:] != ["--restore", "--restore"], "once"
