"""The status line of `edgedla run` on a terminal: frames/s, age, drops, load."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from typing import Any, Callable, Dict, Iterator, TextIO, Tuple

from edgedla.cli.terminal.screen import is_screen
from edgedla.cli.terminal.waiting import EVERY_S, drawn, in_its_place
from edgedla.text.printable import printable_text


@contextlib.contextmanager
def live_line(summary: Callable[[], Dict[str, Any]], every_s: float = EVERY_S) -> Iterator[None]:
    """Keeps the pipeline's line on the terminal until the block ends, and log lines above it; nothing if stderr is no terminal."""
    if not is_screen(sys.stderr):
        yield
        return
    rates, log = Rates(), logging.getLogger("edgedla")
    above, propagate = _Above(sys.stderr), log.propagate
    log.addHandler(above)
    log.propagate = False
    try:
        with drawn(lambda width: line(summary(), rates, width), every_s, every_s):
            yield
    finally:
        log.removeHandler(above)
        log.propagate = propagate


class Rates:
    """Results per second and the load of each device since the last reading."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._results = 0
        self._busy_ms: Dict[str, float] = {}

    def read(self, summary: Dict[str, Any]) -> Tuple[float, Dict[str, float]]:
        """(results per second, device -> share of time with an inference under way, at most 1)."""
        now = self._clock()
        seconds, self._at = max(now - self._at, 1e-3), now
        results = summary["frames"]["results"]
        rate, self._results = (results - self._results) / seconds, results
        busy: Dict[str, float] = {}
        for runner in summary["runners"]:
            times = runner["inference"]
            busy[runner["runner"]] = busy.get(runner["runner"], 0.0) + times["count"] * (times["mean_ms"] or 0.0)
        load = {name: min(1.0, (ms - self._busy_ms.get(name, 0.0)) / seconds / 1e3) for name, ms in busy.items()}
        self._busy_ms = busy
        return rate, {name: max(0.0, share) for name, share in load.items()}


def line(summary: Dict[str, Any], rates: Rates, width: int) -> str:
    """The line, cut to the terminal's width."""
    rate, load = rates.read(summary)
    frames, age = summary["frames"], summary["stages"]["age"]
    parts = [f"{rate:.1f} frames/s"]
    if age["p50_ms"] is not None:
        parts.append(f"age p50 {age['p50_ms']:.1f} p99 {age['p99_ms']:.1f} ms")
    parts.append(f"dropped {frames['dropped']}")
    parts.append("load " + ", ".join(f"{name} {share:.0%}" for name, share in sorted(load.items())) if load else "")
    waiting = [s["name"] or s["source"] for s in summary["sources"] if s["state"] == "opening"]
    parts.append(f"no frames from {', '.join(waiting)}" if waiting else "")
    text = "  ".join(part for part in parts if part) + ("  SIMULATED" if summary["simulated"] else "")
    return printable_text(text).replace("\n", " ")[: max(width - 1, 20)]


class _Above(logging.StreamHandler):
    """Prints log lines above the live line, which is then drawn again."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setLevel(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        with in_its_place():
            super().emit(record)
