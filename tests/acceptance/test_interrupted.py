"""`doctor --deep` that is interrupted, or cannot write its report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, List

import click
import pytest

from edgedla.acceptance import process
from edgedla.acceptance.archive import unpack
from edgedla.acceptance.values import StepResult
from edgedla.cli.boards.doctor import doctor
from edgedla.errors import EdgedlaError

pytestmark = pytest.mark.once


def test_ctrl_c_restores_the_clocks_and_keeps_finished_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: List[Any] = [StepResult("P1", "ok", 1.0, ""), KeyboardInterrupt()]
    given_back: List[Path] = []

    def run(*_: Any) -> StepResult:
        step = steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    monkeypatch.setattr(process, "_run", run)
    monkeypatch.setattr(process, "restore", given_back.append)
    with pytest.raises((KeyboardInterrupt, click.Abort)):
        doctor.main(["--deep", "-o", str(tmp_path / "truth.tar.gz")], standalone_mode=False)
    assert len(given_back) == 2
    report, _ = unpack(tmp_path / "truth.tar.gz")
    assert [s["id"] for s in report["steps"]] == ["P1"]


#: `doctor --deep` whose second step writes its process id and lasts; giving the clocks back is noted too. A second argument is
#: a signal that comes before Popen has returned.
SLOW_STEP = """
import os, sys
from pathlib import Path
from edgedla.acceptance import process
from edgedla.cli.main import exit_code_of
from edgedla.version import version
# It asks git once: no step.
version()
popen, here, steps = process.subprocess.Popen, Path(sys.argv[1]), []
def start(command, **how):
    steps.append(command)
    code = "" if len(steps) == 1 else f"import os, time; open({str(here / 'step')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    process = popen([sys.executable, "-c", code], **how)
    if len(steps) == 2 and sys.argv[2:]:
        while not (here / "step").exists() or not (here / "step").read_text(): pass
        os.kill(os.getpid(), int(sys.argv[2]))
    return process
process.subprocess.Popen = start
process.restore = lambda work: (here / "restored").touch()
sys.exit(exit_code_of(["doctor", "--deep", "-o", str(here / "truth.tar.gz")]))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_doctor_deep_ends_its_step_and_restores_the_clocks(tmp_path: Path, name: str) -> None:
    """A step has a session of its own: without a word to it, it ran on after a lost connection, with the clocks locked."""
    started = subprocess.Popen(
        [sys.executable, "-c", SLOW_STEP, str(tmp_path)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    step = tmp_path / "step"
    until = time.monotonic() + 60
    while not (step.exists() and step.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    (tmp_path / "restored").unlink()
    started.send_signal(getattr(signal, name))
    assert started.wait(30) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(step.read_text()), 0)
    assert (tmp_path / "restored").exists()
    assert not list(tmp_path.glob("edgedla-deep-*"))
    report, _ = unpack(tmp_path / "truth.tar.gz")
    assert [s["id"] for s in report["steps"]] == ["P1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_a_step_starts_ends_the_step(tmp_path: Path, number: signal.Signals) -> None:
    """Before Popen returns, nobody knows the step's process id: the signal waits until somebody does."""
    subprocess.run(
        [sys.executable, "-c", SLOW_STEP, str(tmp_path), str(int(number))],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=50,
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "step").read_text()), 0)
    assert (tmp_path / "restored").exists()
    report, _ = unpack(tmp_path / "truth.tar.gz")
    assert [s["id"] for s in report["steps"]] == ["P1"]


def test_a_step_gets_the_signals_that_its_parent_held_back() -> None:
    held = signal.pthread_sigmask(signal.SIG_BLOCK, process.ENDING)
    try:
        child = subprocess.run([sys.executable, "-m", "edgedla.acceptance.child"], stderr=subprocess.PIPE, preexec_fn=_hang_up)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    assert child.returncode == -signal.SIGHUP


def _hang_up() -> None:
    """Sent while it is held back, the signal comes when it is let through."""
    os.kill(os.getpid(), signal.SIGHUP)


def test_an_unwritable_report_path_is_refused_before_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_run", lambda *_: pytest.fail("a step ran"))
    (tmp_path / "file").write_text("")
    with pytest.raises(EdgedlaError) as refused:
        doctor.main(["--deep", "-o", str(tmp_path / "file" / "truth.tar.gz")], standalone_mode=False)
    assert refused.value.exit_code in (2, 4)
