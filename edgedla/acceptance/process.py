"""Runs the steps in order, each in a process of its own with a time limit; the report is complete after each step."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Callable, Dict, List, Optional, Sequence

from edgedla.acceptance.measure.clocks import restore
from edgedla.acceptance.steps import STEPS, Context, Step
from edgedla.acceptance.values import StepResult
from edgedla.identity import identity
from edgedla.io.documents import header
from edgedla.io.files import write_atomic

Say = Callable[[str], None]
#: Bytes of a step's output that the report keeps, from its end.
KEPT_BYTES = 256 * 1024
#: Signals that end the report early; they wait while a step starts.
ENDING = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))


def run_steps(
    folder: Path,
    *,
    quick: bool = False,
    container: str = "",
    only: Sequence[str] = (),
    lock_clocks: bool = False,
    say: Optional[Say] = None,
) -> Dict[str, Any]:
    """The report; whatever happens to a step, `folder` always holds report.json, logs/ and files/.

    Args:
        only: ids of the steps to run; () for all.
        lock_clocks: P8 also measures under jetson_clocks. This needs root, or sudo without a password; the clocks are
            restored, even if the step dies.
    """
    work, logs, files = folder / "work", folder / "logs", folder / "files"
    for one in (work, logs, files):
        one.mkdir(parents=True, exist_ok=True)
    context = Context(str(work), str(files), quick, container, lock_clocks)
    context_file = work / "context.json"
    context_file.write_text(json.dumps(context._asdict()), encoding="utf-8")
    results: List[StepResult] = []
    for step in STEPS.values():
        if only and step.id not in only:
            continue
        limit_s = step.quick_limit_s if quick else step.limit_s
        if not limit_s:
            result = StepResult(step.id, "skipped", 0.0, "not in a quick run")
        else:
            try:
                result = _run(step, limit_s, context_file, work, logs)
            finally:
                # A step that was killed, by its limit or Ctrl-C, may leave the clocks locked.
                restore(work)
        results.append(result)
        if say is not None:
            reason = f": {result.reason.splitlines()[-1]}" if result.reason else ""
            say(f"{step.id:4} {result.state:8} {result.seconds:6.1f} s  {step.title}{reason}")
        write_atomic(folder / "report.json", json.dumps(report(results, quick), indent=1) + "\n")
    return report(results, quick)


def report(results: Sequence[StepResult], quick: bool) -> Dict[str, Any]:
    return {
        **header("edgedla.acceptance"),
        **identity().document,
        "quick": quick,
        "steps": [{**r.to_dict(), "title": STEPS[r.id].title} for r in results],
    }


def _run(step: Step, limit_s: float, context_file: Path, work: Path, logs: Path) -> StepResult:
    result_file = work / f"{step.id}.json"
    with contextlib.suppress(OSError):
        result_file.unlink()
    command = [sys.executable, "-m", "edgedla.acceptance.child", step.id, str(context_file), str(result_file)]
    started = time.monotonic()
    log_file = logs / f"{step.id}.log"
    with open(log_file, "wb") as log:
        code = _waited(command, log, limit_s)
    seconds = round(time.monotonic() - started, 2)
    _keep_end(log_file)
    with contextlib.suppress(OSError, ValueError, TypeError):
        # A result that was written counts, even if a driver then crashed the process.
        written = json.loads(result_file.read_text(encoding="utf-8"))
        return StepResult(step.id, written["state"], seconds, written["reason"], tuple(written["findings"]))
    if code is None:
        return StepResult(step.id, "failed", seconds, f"out of time after {limit_s:g} s")
    died = f"was ended by signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return StepResult(step.id, "failed", seconds, f"the step's process {died} without a result; logs/{step.id}.log")


def _waited(command: Sequence[str], log: IO[bytes], limit_s: float) -> Optional[int]:
    """The command's exit code, below 0 for a signal; None where it ran out of time. Nothing that it started runs on."""
    # A signal inside Popen would leave a step whose process id nobody knows; the step lets them through again.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        # A session of its own, so that everything the step started ends with it.
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _keep_end(path: Path) -> None:
    data = path.read_bytes()
    if len(data) > KEPT_BYTES:
        path.write_bytes(b"[the beginning is left out]\n" + data[-KEPT_BYTES:])
