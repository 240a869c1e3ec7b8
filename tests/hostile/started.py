"""Commands as processes of their own, as a user starts them, and what is wrong with how one ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Optional, Sequence, Tuple

ROOT = Path(__file__).resolve().parents[2]
#: Exit codes that are documented; 130 and the signals' own are of processes that were asked to end.
DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 7, 130}
#: Of every camera's address; no output holds it.
PASSWORD = "S3cret"
EDGEDLA = [sys.executable, "-m", "edgedla"]


def start(command: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        cwd=str(folder),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def written(process: subprocess.Popen[str]) -> Optional[Tuple[str, str]]:
    """(output, messages) of a process that ends; None: it hung, and was killed."""
    try:
        return process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None


def ended(process: subprocess.Popen[str], what: str) -> Optional[str]:
    """What is wrong with how a process ended; None if nothing is."""
    said = written(process)
    if said is None:
        return f"{what}: hangs"
    out, err = said
    if process.returncode not in DOCUMENTED:
        return f"{what}: ended with {process.returncode}: {err[-300:]}"
    if PASSWORD in out + err:
        return f"{what}: a password in its output"
    return f"{what}: a traceback: {err[-300:]}" if "Traceback" in out + err else None
