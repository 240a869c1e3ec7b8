"""The engine for many machines: the same tasks on the workers of a Dask scheduler."""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from edgedla.errors import EnvironmentMissing, UsageError, described
from edgedla.identity import identity
from edgedla.sweep.local import chunks_of
from edgedla.sweep.row import Row
from edgedla.sweep.task import Task
from edgedla.sweep.worker import Limits, Worker

#: After so many lost workers, a chunk's tasks become rows with the error.
ALLOWED_RETRIES = 5
#: Children by limits, one per thread of a Dask worker; they live as long as the worker.
_WORKERS = threading.local()


def run_chunk(documents: Sequence[Dict[str, Any]], limits: Limits, made_by: str) -> List[Row]:
    """Runs on a Dask worker: the tasks run in a child process, so that no model can end the worker."""
    if made_by != identity().text:
        raise RuntimeError(f"this worker has edgedla {identity().text}, the sweep is of {made_by}")
    workers: Dict[Limits, Worker] = _WORKERS.__dict__.setdefault("by_limits", {})
    worker = workers.setdefault(limits, Worker(limits))
    return [worker.run(Task.from_dict(d)) for d in documents]


def run_on_dask(address: str, tasks: Sequence[Task], limits: Limits) -> Iterator[Row]:
    """Rows as they finish. Board tasks require the resource `board-NAME`, of which each worker has 1.

    Args:
        address: the scheduler's, "tcp://host:8786".

    Raises:
        UsageError: not an address.
        EnvironmentMissing: no dask.distributed here, no scheduler at the address, or no worker for a board.
    """
    distributed = _distributed()
    # It logs a traceback for each lost connection; errors that matter are raised.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=15, set_as_default=False)
    except ValueError as e:
        raise UsageError(
            f"{address!r} is not an address: {e}", where="--engine", allowed="local, tcp://HOST:PORT"
        ) from e
    except OSError as e:
        raise EnvironmentMissing(
            f"no Dask scheduler answers: {e}", where=address, hint="start one: dask scheduler --port 8786"
        ) from e
    try:
        workers = client.scheduler_info(n_workers=-1) if _takes_n_workers(client) else client.scheduler_info()
        if not workers["workers"]:
            raise EnvironmentMissing(
                "the Dask scheduler has no workers", where=address, hint=f"start some: dask worker {address}"
            )
        offered = {r for w in workers["workers"].values() for r in (w.get("resources") or {})}
        futures: Dict[Any, Tuple[Task, ...]] = {}
        for part in _parts(tasks):
            resources = {f"board-{part[0].board}": 1} if part[0].board else {}
            missing = set(resources) - offered
            if missing:
                # Dask would wait for such a worker for ever.
                name = min(missing)
                raise EnvironmentMissing(
                    f"no Dask worker has the resource {name}",
                    where=address,
                    hint=f"start one where the board is reached: dask worker {address} --nthreads 1 --resources {name}=1",
                )
            future = client.submit(
                run_chunk, [t.to_dict() for t in part], limits, identity().text,
                resources=resources or None, retries=ALLOWED_RETRIES, pure=False,
            )  # fmt: skip
            futures[future] = tuple(part)
        for future in distributed.as_completed(list(futures), loop=client.loop):
            # The status is no guide: a result is lost with its worker, and then computed again.
            try:
                rows = future.result()
            except (Exception, asyncio.CancelledError) as e:
                # The client may see a closed connection before it notices that its scheduler is gone.
                lost = any(kind in type(e).__name__ for kind in ("Cancelled", "CommClosed"))
                if client.status != "running" or lost:
                    raise EnvironmentMissing(
                        "the Dask scheduler went away, or another client cancelled the work", where=address,
                        hint="start it and give the same command again: the sweep goes on where it stopped",
                    ) from e  # fmt: skip
                raise EnvironmentMissing(f"the Dask workers failed: {described(e)}", where=address) from e
            yield from rows
            future.release()
    finally:
        client.close()


def _parts(tasks: Sequence[Task], size: int = 8) -> Iterator[List[Task]]:
    """Chunks, with large ones split: a lost worker's unfinished chunk is run again."""
    for chunk in chunks_of(tasks):
        for first in range(0, len(chunk), size):
            yield chunk[first : first + size]


def _takes_n_workers(client: Any) -> bool:
    import inspect

    # Since 2025 the answer lists only five workers unless all are requested.
    return "n_workers" in inspect.signature(client.scheduler_info).parameters


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as e:
        raise EnvironmentMissing(
            f"dask.distributed cannot be imported: {e}", hint="pip install 'edgedla[sweep]'"
        ) from e
