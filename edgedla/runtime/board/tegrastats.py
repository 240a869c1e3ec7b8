"""NVIDIA's tegrastats, for numbers that the kernel shows only to root (DLA clocks) or not at all."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, Optional

#: Relative to the root; often missing in containers.
PROGRAM = "usr/bin/tegrastats"
# JetPack 5 writes "NVDLA0_FREQ @1600"; JetPack 6 "NVDLA0 off", or load and clock as for other engines.
_DLA = re.compile(r"\bNVDLA(\d)(?:_FREQ)?\s+(?:\d+%)?@\[?(\d+)")
_EMC = re.compile(r"\bEMC_FREQ\s+(?:\d+%)?@(\d+)")
_GPU = re.compile(r"\bGR3D_FREQ\s+(?:\d+%)?@\[?(\d+)")
_TEMPERATURE = re.compile(r"\b([A-Za-z][\w-]*)@(-?\d+(?:\.\d+)?)C\b")
# "VDD_IN 5336mW/4970mW": present value, and average since the start.
_POWER = re.compile(r"\b([A-Z][A-Z0-9_]+)\s+(\d+)(?:mW)?/\d+(?:mW)?(?!\S*MB)\b")


@dataclass(frozen=True)
class Line:
    """One line of tegrastats; values that it lacks are missing from the tables."""

    clocks_mhz: Dict[str, float]
    temperatures_c: Dict[str, float]
    power_mw: Dict[str, float]


def parse_line(text: str) -> Line:
    """Never raises: a line of another form gives empty tables."""
    clocks = {f"dla{core}": float(mhz) for core, mhz in _DLA.findall(text)}
    for name, pattern in (("emc", _EMC), ("gpu", _GPU)):
        match = pattern.search(text)
        if match:
            clocks[name] = float(match.group(1))
    # Sensors that are switched off report -256 C.
    warm = {name: float(c) for name, c in _TEMPERATURE.findall(text) if -40 < float(c) < 150}
    power = {name: float(mw) for name, mw in _POWER.findall(text) if name not in ("RAM", "SWAP", "IRAM")}
    return Line(clocks, warm, power)


class Tegrastats:
    """A running tegrastats; `last` is its newest line."""

    def __init__(self, program: Path, interval_s: float) -> None:
        self.last: Optional[Line] = None
        self._process = subprocess.Popen(
            [str(program), "--interval", str(max(100, int(interval_s * 1000)))],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
        threading.Thread(target=self._read, name="edgedla-tegrastats", daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(ValueError):
            for text in self._process.stdout or ():
                self.last = parse_line(text)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def running(base: Path, interval_s: float) -> Iterator[Optional[Tegrastats]]:
    """tegrastats within the `with` block; None if it is missing or does not start."""
    program, started = base / PROGRAM, None
    if program.is_file():
        with contextlib.suppress(OSError):
            started = Tegrastats(program, interval_s)
    try:
        yield started
    finally:
        if started is not None:
            started.close()
