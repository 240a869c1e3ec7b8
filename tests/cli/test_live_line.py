"""The status line of a running pipeline: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from typing import Any, Dict, Iterator, List, Tuple

import pytest

from edgedla.cli.terminal.live_line import Rates, line, live_line
from edgedla.cli.terminal.screen import CLEAR


def summary(results: int = 0, busy_ms: float = 0.0, state: str = "open", **changes: Any) -> Dict[str, Any]:
    runner = {"runner": "DLA0", "inference": {"count": 10, "mean_ms": busy_ms / 10}}
    return {
        "simulated": False,
        "frames": {"results": results, "dropped": 3},
        "stages": {"age": {"count": results, "p50_ms": 12.34, "p99_ms": 56.78}},
        "runners": [runner],
        "sources": [{"name": "door", "source": "rtsp://door", "state": state}],
        **changes,
    }


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_live_line_shows_rate_age_drops_and_load() -> None:
    clock = Clock()
    rates = Rates(clock)
    clock.now = 2.0
    assert line(summary(60, 1500.0), rates, 200) == ("30.0 frames/s  age p50 12.3 p99 56.8 ms  dropped 3  load DLA0 75%")
    # What went before does not count again.
    clock.now = 3.0
    assert line(summary(70, 1600.0), rates, 200).startswith("10.0 frames/s")
    clock.now = 4.0
    said = line(summary(70, 1600.0, "opening", simulated=True), rates, 200)
    assert said.startswith("0.0 frames/s")
    assert said.endswith("load DLA0 0%  no frames from door  SIMULATED")


def test_the_live_line_leaves_out_ages_that_nobody_knows() -> None:
    stages = {"age": {"count": 60, "p50_ms": None, "p99_ms": None}}
    assert "age" not in line(summary(60, 1.0, stages=stages), Rates(Clock()), 200)


def test_the_live_line_fits_the_terminal_without_cursor_codes() -> None:
    named = summary(5, 1.0, "opening")
    named["sources"][0]["name"] = "a\x1b[2Jb\nc"
    text = line(named, Rates(Clock()), 300)
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(line(named, Rates(Clock()), 40)) <= 39


def test_the_live_line_is_off_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with live_line(summary, 0.001):
        time.sleep(0.02)
    assert out.getvalue() == ""


@pytest.fixture
def terminal() -> Iterator[Tuple[Any, int]]:
    pty = pytest.importorskip("pty")
    if sys.platform == "win32":
        pytest.skip("no pseudo-terminals")
    ours, theirs = pty.openpty()
    stream = os.fdopen(theirs, "w")
    yield stream, ours
    stream.close()
    os.close(ours)


def read(fd: int) -> str:
    parts: List[bytes] = []
    os.set_blocking(fd, False)
    try:
        while True:
            parts.append(os.read(fd, 1 << 16))
    except OSError:
        return b"".join(parts).decode()


def test_the_live_line_stays_below_warnings_on_a_terminal(terminal: Tuple[Any, int], monkeypatch: pytest.MonkeyPatch) -> None:
    stream, ours = terminal
    monkeypatch.setattr(sys, "stderr", stream)
    shown = ""
    with live_line(lambda: summary(3), 0.005):
        deadline = time.monotonic() + 60
        while "frames/s" not in shown and time.monotonic() < deadline:
            time.sleep(0.01)
            shown += read(ours)
        logging.getLogger("edgedla.test").warning("the camera is away")
    shown += read(ours)
    assert "load DLA0" in shown, "a terminal that does not tell its width has 80 columns"
    assert CLEAR + "the camera is away" in shown
    assert "frames/s" not in shown.rpartition(CLEAR)[2], "it goes with the pipeline"
    assert logging.getLogger("edgedla").propagate
