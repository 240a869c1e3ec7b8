"""`python -m edgedla.sweep.child PARENT`: runs tasks from stdin, one line of JSON each, in an expendable process."""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any, Optional

from edgedla.sweep.evaluate import Evaluator, Keep
from edgedla.sweep.task import Task

PARENT_POLL_S = 0.5


def limit_memory(limit_mb: int) -> None:
    """Limits the private memory that this process may allocate from now on: beyond it, MemoryError instead of a full machine."""
    if limit_mb:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + (limit_mb << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _keeper(name: Optional[str], folder: Optional[str]) -> Optional[Keep]:
    """The function `module:function` that writes pages; given by name, because sweeps may not import reports."""
    if not name or not folder:
        return None
    module, _, function = name.partition(":")
    made: Keep = getattr(importlib.import_module(module), function)(Path(folder))
    return made


def _end_with(parent: int) -> None:
    """Ends this process soon after its parent ends; during a task nothing else would tell it."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    options: Any = json.loads(sys.stdin.readline())
    # Output of libraries must not get between our answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    gc.set_threshold(100_000, 20, 20)
    evaluator = Evaluator(_keeper(options.get("keep"), options.get("folder")))
    limit_memory(int(options["memory_mb"]))
    for line in sys.stdin:
        row = evaluator.row(Task.from_dict(json.loads(line)))
        answers.write(json.dumps(row, separators=(",", ":")) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
