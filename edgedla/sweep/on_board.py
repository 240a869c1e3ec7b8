"""One task on a board: the model is built there and measured, by the verbs that a person would call."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Dict, List

from edgedla.errors import BuildError, RunError
from edgedla.remote.inventory import board_named
from edgedla.remote.job import Ended, Request, Terminal, run_on
from edgedla.remote.transfer import folder_files, model_files
from edgedla.sweep.task import Task

#: A board that somebody else has is waited for.
WAIT_S = 24 * 3600.0


def bench_on_board(task: Task) -> Dict[str, Any]:
    """Columns of what the board measured.

    Raises:
        BuildError, RunError: the board's verb failed; its last words are the message. EnvironmentMissing: no connection.
    """
    assert task.board is not None
    with tempfile.TemporaryDirectory(prefix="edgedla-sweep-") as temporary:
        folder = Path(temporary)
        artifact = folder / "artifact"
        model = model_files(Path(task.model), "1/model.onnx")
        batch = [f"--batch={task.settings.batch}"] if task.settings.batch else []
        words = ["build", f"--precision={task.precision}", f"--target={task.target}", "--output=out/0/artifact", *batch]
        request = Request(
            f"edgedla sweep: build {Path(task.model).name}", (*words, "--", "in/1/model.onnx"), tuple(model),
            {"0/artifact": artifact}, wait_s=WAIT_S,
        )  # fmt: skip
        lines: List[str] = []
        _run(task, request, lines, BuildError)
        request = Request(
            f"edgedla sweep: bench {Path(task.model).name}",
            ("bench", "--format=json", "--output=out/0/bench.json", "--", "in/1/artifact"),
            tuple(folder_files(artifact, "1/artifact")), {"0/bench.json": folder / "bench.json"}, wait_s=WAIT_S,
        )  # fmt: skip
        _run(task, request, lines, RunError)
        try:
            result = json.loads((folder / "bench.json").read_text(encoding="utf-8"))["results"][0]
            mean_ms, rate, simulated = float(result["mean_ms"]), float(result["throughput_qps"]), result["simulated"]
        except (OSError, ValueError, KeyError, IndexError, TypeError) as e:
            raise RunError(f"what the board measured cannot be read: {e}", where=f"board {task.board}") from e
    return {
        "latency_us": round(mean_ms * 1000, 1),
        "period_us": round(1e6 / rate, 1) if rate > 0 else None,
        "basis": "simulated" if simulated else "measured",
    }


def _run(task: Task, request: Request, lines: List[str], error: Any) -> Ended:
    ended = run_on(board_named(str(task.board)), request, Terminal(err=lines.append))
    if ended.rc:
        raise error(f"exit code {ended.rc}: {''.join(lines)[-400:]}", where=f"board {task.board}")
    return ended
