"""The end of TensorRT's log for an error's hint."""

from __future__ import annotations

from typing import List

#: How many log lines an error repeats.
LAST_LINES = 20


def log_tail(lines: List[str]) -> str:
    return "last lines of TensorRT's log:\n    " + "\n    ".join(lines[-LAST_LINES:] or ["(it logged nothing)"])
