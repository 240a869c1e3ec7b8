"""Runs one task on a board: builds the model there and measures it, with the commands that a person would use."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Dict

from edgedla.remote.inventory import board_named
from edgedla.remote.measure import measure_on
from edgedla.sweep.task import Task

#: How long to wait while somebody else has the board.
WAIT_S = 24 * 3600.0


def bench_on_board(task: Task) -> Dict[str, Any]:
    """Columns measured on the board.

    Raises:
        BuildError, RunError: the board's command failed; its last output is the message. EnvironmentMissing: no connection.
    """
    assert task.board is not None
    batch = [f"--batch={task.settings.batch}"] if task.settings.batch else []
    with tempfile.TemporaryDirectory(prefix="edgedla-sweep-") as folder:
        measured = measure_on(
            board_named(task.board),
            Path(task.model),
            Path(folder),
            what="edgedla sweep",
            build=[f"--precision={task.precision}", f"--target={task.target}", *batch],
            wait_s=WAIT_S,
        )
    rate = float(measured.result["throughput_qps"])
    return {
        "latency_us": round(float(measured.result["mean_ms"]) * 1000, 1),
        "period_us": round(1e6 / rate, 1) if rate > 0 else None,
        "basis": "simulated" if measured.result["simulated"] else "measured",
    }
