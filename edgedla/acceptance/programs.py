"""Runs the board's programs with a time limit."""

from __future__ import annotations

import subprocess
from typing import Optional, Sequence, Tuple


def run_program(command: Sequence[str], limit_s: float) -> Tuple[Optional[int], str]:
    """(exit code, the end of its output); None if it cannot be started, or ran out of time."""
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, errors="replace", timeout=limit_s, check=False)
    except OSError as e:
        return None, f"{command[0]}: {e.strerror}"
    except subprocess.TimeoutExpired:
        return None, f"out of time after {limit_s:g} s"
    return done.returncode, (done.stdout + done.stderr)[-4000:]
