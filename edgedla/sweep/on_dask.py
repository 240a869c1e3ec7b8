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
from edgedla.sweep.row import Row, rows_in
from edgedla.sweep.task import Task
from edgedla.sweep.worker import Limits, Worker

#: A chunk that raises is tried again so often.
ALLOWED_RETRIES = 5
#: Seconds that a scheduler has to answer.
CONNECT_S = 15
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
    client = _client(distributed, address)
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
                run_chunk,
                [t.to_dict() for t in part],
                limits,
                identity().text,
                resources=resources or None,
                retries=ALLOWED_RETRIES,
                pure=False,
            )
            futures[future] = tuple(part)
        for future in distributed.as_completed(list(futures), loop=client.loop):
            # The status is no guide: a result is lost with its worker, and then computed again.
            try:
                rows = rows_in(future.result(), futures[future])
            except (Exception, asyncio.CancelledError) as e:
                # The client may see a closed connection before it notices that its scheduler is gone.
                lost = any(kind in type(e).__name__ for kind in ("Cancelled", "CommClosed"))
                if client.status != "running" or lost:
                    raise EnvironmentMissing(
                        "the Dask scheduler went away, or another client cancelled the work",
                        where=address,
                        hint="start it and give the same command again: the sweep goes on where it stopped",
                    ) from e
                raise EnvironmentMissing(f"the Dask workers failed: {described(e)}", where=address) from e
            yield from rows
            future.release()
    finally:
        client.close()


def _client(distributed: Any, address: str) -> Any:
    """A client of the scheduler, made on another thread: Dask may wait for ever for an end of its handshake.

    Raises:
        UsageError: not an address. EnvironmentMissing: no scheduler answers there in time.
    """
    made: List[Any] = [TimeoutError(f"no handshake within {2 * CONNECT_S} s")]

    def make() -> None:
        try:
            made[0] = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
        except BaseException as e:
            # Whatever listens there may say anything: a message of 2**60 bytes is a MemoryError.
            made[0] = e

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    maker.join(2 * CONNECT_S)
    (found,) = made
    if isinstance(found, (ValueError, TypeError)):
        raise UsageError(f"{address!r} is not an address: {found}", where="--engine", allowed="local, tcp://HOST:PORT")
    if isinstance(found, BaseException):
        what = f"no Dask scheduler answers: {described(found)}"
        raise EnvironmentMissing(what, where=address, hint="start one: dask scheduler --port 8786")
    return found


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
        raise EnvironmentMissing(f"dask.distributed cannot be imported: {e}", hint="pip install 'edgedla[sweep]'") from e
