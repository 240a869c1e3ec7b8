"""A child process that runs tasks under limits: a task that crashes, hangs or exhausts memory costs only its own row."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Dict, Optional

from edgedla.sweep.row import Row, new_row, one_line
from edgedla.sweep.task import Task


@dataclass(frozen=True)
class Limits:
    """Limits per task: seconds, and MB of private memory; 0 is no limit. `keep`, `folder`: see child."""

    timeout_s: float = 300.0
    memory_mb: int = 4096
    keep: Optional[str] = None
    folder: Optional[str] = None


class Worker:
    """One child process at a time, started on demand and again after each loss."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._stderr: Optional[IO[bytes]] = None
        self._buffer = b""

    def run(self, task: Task) -> Row:
        """The task's row; for a task that ended its process, a row that says how."""
        child = self._started()
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(task.to_dict()).encode("utf-8") + b"\n")
            child.stdin.flush()
            line = self._line(child)
        except BrokenPipeError:
            line = b""
        if line:
            row: Row = json.loads(line.decode("utf-8"))
            if row["status"] == "memory":
                # A failed allocation may leave memory held.
                self.close()
            return row
        if line is None:
            self.close()
            return new_row(task, "timeout", f"no answer within {self._limits.timeout_s:g} s")
        rc = child.wait()
        last_words = self._stderr_text()
        self.close()
        if rc == -signal.SIGKILL or "MemoryError" in last_words or "bad_alloc" in last_words:
            return new_row(task, "memory", f"its process was ended: above {self._limits.memory_mb} MB, or by the system")
        how = f"signal {-rc} ({signal.Signals(-rc).name})" if rc < 0 else f"exit code {rc}"
        return new_row(
            task,
            "crashed",
            one_line(f"its process ended with {how}: {last_words}" if last_words else f"its process ended with {how}"),
        )

    def kill(self) -> None:
        """Ends the running task, from another thread; its row says that the process was ended."""
        child = self._child
        if child is not None:
            _end(child)

    def close(self) -> None:
        if self._child is not None:
            _end(self._child)
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout, self._stderr):
                if pipe is not None:
                    pipe.close()
        self._child, self._stderr, self._buffer = None, None, b""

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        self._stderr = tempfile.TemporaryFile()
        # The child finds the same edgedla, also from a checkout.
        package = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH", "")) if p)
        # One thread per process: the pool of workers already uses all cores.
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        child = subprocess.Popen(
            [sys.executable, "-m", "edgedla.sweep.child", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **one, "PYTHONPATH": path},
        )
        options: Dict[str, Any] = {"memory_mb": self._limits.memory_mb, "keep": self._limits.keep, "folder": self._limits.folder}
        assert child.stdin is not None
        child.stdin.write(json.dumps(options).encode("ascii") + b"\n")
        self._child = child
        return child

    def _line(self, child: subprocess.Popen[bytes]) -> Optional[bytes]:
        """The answer; b"" if the process ended, None if the time is over."""
        assert child.stdout is not None
        until = time.monotonic() + self._limits.timeout_s if self._limits.timeout_s else None
        while b"\n" not in self._buffer:
            remaining_s = None if until is None else until - time.monotonic()
            if remaining_s is not None and (remaining_s <= 0 or not select.select([child.stdout], [], [], remaining_s)[0]):
                return None
            data = os.read(child.stdout.fileno(), 1 << 20)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _stderr_text(self) -> str:
        if self._stderr is None:
            return ""
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 2000))
        return self._stderr.read().decode("utf-8", "replace")


def _end(child: subprocess.Popen[bytes]) -> None:
    # Python 3.8 polls the process and then kills it: it may end in between.
    with contextlib.suppress(ProcessLookupError):
        child.kill()
