"""`doctor --deep` that is interrupted, or cannot write its report."""

from __future__ import annotations

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


def test_an_unwritable_report_path_is_refused_before_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_run", lambda *_: pytest.fail("a step ran"))
    (tmp_path / "file").write_text("")
    with pytest.raises(EdgedlaError) as refused:
        doctor.main(["--deep", "-o", str(tmp_path / "file" / "truth.tar.gz")], standalone_mode=False)
    assert refused.value.exit_code in (2, 4)
