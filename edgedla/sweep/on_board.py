"""One task on a board: the model is built there and measured, by the verbs that a person would call."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Dict

from edgedla.remote.inventory import board_named
from edgedla.remote.measure import measure_on
from edgedla.sweep.task import Task

#: A board that somebody else has is waited for.
WAIT_S = 24 * 3600.0


def bench_on_board(task: Task) -> Dict[str, Any]:
    """Columns of what the board measured.

    Raises:
        BuildError, RunError: the board's verb failed; its last words are the message. EnvironmentMissing: no connection.
    """
    assert task.board is not None
    batch = [f"--batch={task.settings.batch}"] if task.settings.batch else []
    with tempfile.TemporaryDirectory(prefix="edgedla-sweep-") as folder:
        measured = measure_on(
            board_named(task.board), Path(task.model), Path(folder), what="edgedla sweep",
            build=[f"--precision={task.precision}", f"--target={task.target}", *batch], wait_s=WAIT_S,
        )  # fmt: skip
    rate = float(measured.result["throughput_qps"])
    return {
        "latency_us": round(float(measured.result["mean_ms"]) * 1000, 1),
        "period_us": round(1e6 / rate, 1) if rate > 0 else None,
        "basis": "simulated" if measured.result["simulated"] else "measured",
    }
