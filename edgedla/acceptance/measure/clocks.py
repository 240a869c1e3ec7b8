"""P8's clocks: the conditions of a time, and jetson_clocks during a measurement if the user requested it."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple

from edgedla.acceptance.programs import run_program
from edgedla.targets.device_files import read_board

log = logging.getLogger("edgedla.acceptance.measure.clocks")
#: Output of `jetson_clocks --store`, below the steps' common folder. It exists while clocks are locked, and only then.
STORED = "jetson_clocks.stored"


class Clocks:
    """The clocks at the start and at the end of a measurement."""

    def __init__(self) -> None:
        self._before = self._read()

    def window(self) -> Dict[str, Any]:
        after = self._read()
        return {"clocks_before": self._before[0], "clocks_after": after[0], "throttled": self._before[1] or after[1]}

    def _read(self) -> Any:
        reading = read_board()
        return {k: v / 1e6 for k, v in reading.clocks_hz.items()}, bool(reading.throttled_by)


@contextlib.contextmanager
def locked(work: Path) -> Iterator[str]:
    """Locks the clocks by jetson_clocks within the `with` block, after storing their state; yields "" or why that failed."""
    refusal = _lock(work / STORED)
    try:
        yield refusal
    finally:
        restore(work)


def restore(work: Path) -> None:
    """Restores the clocks; also after a process that was killed while they were locked.

    If jetson_clocks refuses, the stored state stays, and the next call tries again.
    """
    stored = work / STORED
    if not stored.is_file():
        return
    code, text = _jetson_clocks("--restore", str(stored))
    if code != 0:
        log.warning("the clocks are locked still: jetson_clocks --restore %s: %s", stored, text)
        return
    _forget(stored)


def _lock(stored: Path) -> str:
    code, text = _jetson_clocks("--store", str(stored))
    if code != 0:
        _forget(stored)
        return text
    if not stored.is_file():
        return "jetson_clocks stored nothing: the clocks could not be given back"
    code, text = _jetson_clocks()
    return text if code != 0 else ""


def _forget(stored: Path) -> None:
    with contextlib.suppress(OSError):
        stored.unlink()


def _jetson_clocks(*arguments: str) -> Tuple[int, str]:
    """(exit code, last line of output). Without root it runs by `sudo -n`, which never asks for a password."""
    program = shutil.which("jetson_clocks", path=os.environ.get("PATH", "") + os.pathsep + "/usr/bin")
    if program is None:
        return 127, "there is no jetson_clocks"
    command = [*(() if os.geteuid() == 0 else ("sudo", "-n")), program, *arguments]
    code, said = run_program(command, 15)
    if code is None:
        return 126, f"jetson_clocks: {said}"
    lines = said.strip().splitlines()
    return code, lines[-1] if lines else f"exit code {code}"
