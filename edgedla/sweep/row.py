"""Rows of a sweep: flat, with the same columns whatever happened, and identical bytes from every engine."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Mapping, Sequence

from edgedla.errors import EdgedlaError
from edgedla.sweep.task import Task

Row = Dict[str, Any]

#: Column -> its meaning. Times are microseconds per frame, energies millijoules per frame above idle.
COLUMNS: Mapping[str, str] = {
    "key": "SHA-256 of model, rules, release and settings",
    "model": "path as given",
    "sha256": "of the model and its weights",
    "platform": "as given",
    "target": "module",
    "jetpack": "release",
    "trt": "TensorRT",
    "precision": "fp16 or int8",
    "action": "check, place, fix or bench",
    "status": "ok, no-dla, model-error, timeout, memory, crashed, error",
    "reason": "why it is not ok; for ok the first reason for a layer on the GPU",
    "layers": "run-time layers",
    "layers_dla": "on the DLA",
    "layers_gpu": "on the GPU",
    "layers_unknown": "of which nobody knows",
    "share_layers_dla": "0 to 1",
    "share_macs_dla": "0 to 1",
    "macs": "multiply-accumulates per frame",
    "regions": "loadables",
    "regions_dropped": "by TensorRT's cap",
    "transitions": "tensors between GPU and loadables, or two loadables; of a placement, the network's inputs and outputs too",
    "latency_us": "one frame alone",
    "period_us": "between frames with many in flight",
    "energy_mj": "one frame",
    "gpu_latency_us": "one frame with everything on the GPU",
    "worth": "of a placement: whether the DLA is worth it, the word of `edgedla check`",
    "fps": "of a placement: frames/s of the best split on all engines, as `edgedla check` gives it",
    "gpu_fps": "frames/s of the GPU alone",
    "basis": "of the times: predicted, simulated or measured",
    "fixes": "rewrites applied",
    "fixed_share_macs_dla": "after them",
    "fixed_latency_us": "after them, predicted",
    "board": "that measured",
    "rules_version": "",
    "edgedla": "version and digest of code, rules and costs that answered",
}
#: Columns of text; the others are numbers. All except key, model and status may be None if unknown.
TEXTS = frozenset(
    "key model sha256 platform target jetpack trt precision action status reason worth basis fixes board rules_version edgedla".split()
)
STATUSES = tuple(COLUMNS["status"].split(", "))
#: Statuses of tasks that may answer otherwise on a retry.
FAILED = ("timeout", "memory", "crashed", "error")

#: Messages of the system and the loader that mean out of memory, where Python raises no MemoryError.
NO_MEMORY = ("Cannot allocate memory", "failed to map segment", "std::bad_alloc", "can't start new thread")


def is_row(row: Any) -> bool:
    """True if a value read from a file has the columns of a row, each with a valid value."""
    if not isinstance(row, dict) or set(row) != set(COLUMNS) or row["status"] not in STATUSES:
        return False
    if not isinstance(row["key"], str) or not isinstance(row["model"], str):
        return False
    return all(value is None or _fits(name, value) for name, value in row.items())


def _fits(name: str, value: object) -> bool:
    if name in TEXTS:
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    # An integer may exceed a double's range.
    return abs(value) <= sys.float_info.max


def new_row(task: Task, status: str, reason: str = "", **values: Any) -> Row:
    """A row with every column; unknown values are None."""
    row: Row = {name: getattr(task, name, None) for name in COLUMNS}
    row.update(platform=task.label, action=task.settings.action, status=status, reason=reason)
    unknown = set(values) - set(COLUMNS)
    assert not unknown, unknown
    row.update(values)
    return row


def rows_in(answer: object, tasks: Sequence[Task]) -> List[Row]:
    """A row for each task: the one that an answer from elsewhere holds, or an error's where it holds none."""
    found = {row["key"]: row for row in answer if is_row(row)} if isinstance(answer, list) else {}
    none = "the worker's answer has no row of it"
    return [{name: found[t.key][name] for name in COLUMNS} if t.key in found else new_row(t, "error", none) for t in tasks]


def error_row(task: Task, error: BaseException) -> Row:
    """The row of a task that ended with one of our errors, or with a bug."""
    if isinstance(error, MemoryError) or any(text in str(error) for text in NO_MEMORY):
        return new_row(task, "memory", "out of memory")
    if isinstance(error, EdgedlaError):
        status = "model-error" if error.exit_code == 3 else "error"
        # The row already names the model; equal content under another name has the same reason.
        return new_row(task, status, one_line(str(error).replace(f"{task.model}, ", "").replace(f"{task.model}: ", "")))
    return new_row(task, "error", one_line(f"bug in edgedla: {type(error).__name__}: {error}"))


def one_line(text: str, limit: int = 500) -> str:
    return " ".join(text.split())[:limit]
