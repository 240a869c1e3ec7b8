"""`sweep`: runs tasks on an engine, with a journal; returns rows in the order of the tasks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence

from edgedla.sweep.journal import Journal
from edgedla.sweep.row import Row
from edgedla.sweep.task import Task
from edgedla.sweep.worker import Limits

#: (finished rows, rows in total, the newest row), called after each row.
Progress = Callable[[int, int, Optional[Row]], None]


def run_sweep(
    tasks: Sequence[Task],
    *,
    limits: Limits,
    engine: str = "local",
    jobs: int = 0,
    journal: Optional[Path] = None,
    retry_failed: bool = False,
    progress: Progress = lambda done, total, row: None,
) -> List[Row]:
    """The rows of all tasks, in their order.

    Args:
        engine: "local", or the address of a Dask scheduler.
        jobs: child processes of the local engine; 0: one per core.
        journal: file of rows; finished rows in it are not computed again, new ones are appended.
        retry_failed: compute rows again that ended by a limit, a crash or an error.

    Raises:
        EnvironmentMissing: no scheduler or workers, or the journal cannot be written. A task's own errors are rows.
    """
    by_key = {task.key: task for task in tasks}
    book = Journal(journal) if journal is not None else None
    rows: Dict[str, Row] = {}
    if book is not None:
        rows = {key: row for key, row in book.rows(retry_failed).items() if key in by_key}
    missing = [task for key, task in by_key.items() if key not in rows]
    progress(len(rows), len(by_key), None)
    try:
        for row in _engine(engine, missing, limits, jobs):
            rows[row["key"]] = row
            if book is not None:
                book.add([row])
            progress(len(rows), len(by_key), row)
    finally:
        if book is not None:
            book.close()
    # Equal content is computed once, but each name and each spelling of a platform has its row.
    return [{**rows[task.key], "model": task.model, "platform": task.label} for task in tasks]


def _engine(engine: str, missing: Sequence[Task], limits: Limits, jobs: int) -> Iterator[Row]:
    if not missing:
        return iter(())
    if engine == "local":
        from edgedla.sweep.local import run_local

        return run_local(missing, limits, jobs or os.cpu_count() or 1)
    from edgedla.sweep.on_dask import run_on_dask

    return run_on_dask(engine, missing, limits)
