"""Dask clusters that answer nonsense: a worker of other code, one that dies, answers that are no rows, and schedulers that are none."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import random
import struct
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from edgedla.errors import EdgedlaError, EnvironmentMissing
from edgedla.identity import identity
from edgedla.sweep import on_dask
from edgedla.sweep.journal import Journal
from edgedla.sweep.row import COLUMNS, Row, is_row, new_row
from edgedla.sweep.sweep import run_sweep
from edgedla.sweep.tables import to_csv, to_jsonl
from edgedla.sweep.task import Settings, Task
from edgedla.sweep.worker import Limits
from tests.hostile.attack_servers import serving
from tests.hostile.values import VALUES, changed, noise

#: A sweep ends within so many seconds, whatever its cluster does.
MOST_S = 60.0
#: The same for a client that waits for a scheduler; people get 15 s.
CONNECT_S = 2
#: Share of the cases with a worker that ends its process: each costs seconds of starting others.
DYING = 0.02
#: What the workers of this process do with a chunk. None: what they should.
_answer: Optional[Callable[[List[Task]], Any]] = None
_real = on_dask.run_chunk


def missing() -> Optional[str]:
    return None if importlib.util.find_spec("distributed") else "dask.distributed"


def honest(tasks: Sequence[Task]) -> List[Row]:
    return [new_row(task, "ok", layers=3, latency_us=12.5, basis="predicted") for task in tasks]


def answered(documents: Sequence[Dict[str, Any]], limits: Limits, made_by: str) -> Any:
    """Stands for `run_chunk` on the workers."""
    tasks = [Task.from_dict(d) for d in documents]
    return honest(tasks) if _answer is None else _answer(tasks)


def dies(documents: Sequence[Dict[str, Any]], limits: Limits, made_by: str) -> Any:
    """Stands for `run_chunk` on a worker in a process of its own: a chunk of m1 ends it."""
    if documents[0]["model"] == "m1.onnx":
        os._exit(3)
    return honest([Task.from_dict(d) for d in documents])


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


class Unreadable(Exception):
    """It can be sent, and not be read."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


@functools.lru_cache(maxsize=2)
def cluster(processes: bool) -> Any:
    import dask
    from distributed import LocalCluster

    # A killed task is not tried on three more workers here: each would have to start.
    dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.worker.daemon": False})
    made = LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=processes,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address=None,
        worker_dashboard_address=None,
        silence_logs=50,
    )
    atexit.register(made.close)
    return made


def rows_instead(rng: random.Random) -> Callable[[List[Task]], Any]:
    """What a worker answers in place of rows."""

    def raises(error: Any) -> Callable[[List[Task]], Any]:
        def answer(tasks: List[Task]) -> Any:
            raise error

        return answer

    def with_values(tasks: List[Task]) -> Any:
        rows = honest(tasks)
        for row in rows:
            for column in rng.sample(sorted(COLUMNS), rng.choice((1, 1, 3, 30))):
                row[column] = rng.choice((*VALUES, float("nan"), float("inf"), -float("inf"), 10**400, b"x", object(), {1: 2}))
        return rows

    words = rng.choice(("", "x", "\x1b[2J\x00", "\ud800", "a\nb\u2028", "y" * 100_000))
    errors = (
        ValueError(words),
        OSError(words),
        MemoryError(),
        KeyError(words),
        UnicodeError(words),
        Unreadable(words, "b"),
        EdgedlaError(words),
        TimeoutError(words),
        ConnectionError(words),
        StopIteration(words),
        RecursionError(),
    )
    odd = (
        None,
        0,
        "rows",
        b"rows",
        [],
        {},
        [None],
        [[]],
        [{}],
        object(),
        float("nan"),
        Unpicklable(),
        lambda: 0,
        threading.Lock(),
        iter(()),
        [Unpicklable()],
        {"key": 1},
        range(5),
        Ellipsis,
    )
    return rng.choice(
        (
            lambda tasks: rng.choice(odd),
            raises(rng.choice(errors)),
            with_values,
            with_values,
            lambda tasks: changed(honest(tasks), rng),
            lambda tasks: changed(honest(tasks), rng),
            lambda tasks: honest(tasks)[: rng.randrange(2)],
            lambda tasks: honest(tasks) * 3,
            lambda tasks: tuple(honest(tasks)),
            lambda tasks: (row for row in honest(tasks)),
            lambda tasks: honest(tasks)[::-1],
            lambda tasks: [{**row, "key": "0" * 64} for row in honest(tasks)],
            lambda tasks: [{**row, "key": honest(tasks)[0]["key"]} for row in honest(tasks)],
            lambda tasks: [dict(reversed(list(row.items()))) for row in honest(tasks)],
        )
    )


def some_tasks(rng: random.Random) -> List[Task]:
    def task(n: int, precision: str) -> Task:
        target = ("agx-orin-64gb", "6.2", "10.3", "orin", precision)
        return Task(f"m{n}.onnx", f"{n:064x}", *target, Settings(), "7", identity().text)

    return [task(n, p) for n in range(rng.choice((1, 2, 4))) for p in ("fp16", "int8")]


def wrong_rows(rows: Sequence[Row], tasks: Sequence[Task]) -> Optional[str]:
    if [row.get("key") for row in rows] != [task.key for task in tasks]:
        return "not one row for each task"
    for row in rows:
        if not is_row(row) or list(row) != list(COLUMNS):
            return f"no row: {str(row)[:200]}"
    to_jsonl(rows).encode("utf-8")
    to_csv(rows).encode("utf-8", "backslashreplace")
    return None


def swept(tasks: Sequence[Task], address: str, journal: Path) -> Optional[str]:
    """What is wrong with how a sweep ends; None: rows of the tasks, or one of edgedla's own errors, in time."""
    began = time.monotonic()
    try:
        wrong = wrong_rows(run_sweep(tasks, limits=Limits(), engine=address, journal=journal), tasks)
    except EdgedlaError as e:
        wrong = "an error without words" if not e.what else None
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:300]}"
    took_s = time.monotonic() - began
    return wrong or (f"it took {took_s:.0f} s" if took_s > MOST_S else None)


def hostile_workers(rng: random.Random, folder: Path) -> Optional[str]:
    """Some chunks are answered with nonsense; a sweep goes on from the journal with sound workers to the right rows."""
    global _answer
    tasks, instead = some_tasks(rng), rows_instead(rng)
    hit = rng.choice((1, 2, 4))
    address = cluster(False).scheduler_address
    on_dask.run_chunk = answered
    try:
        _answer = lambda own: instead(own) if int(own[0].model[1]) < hit else honest(own)  # noqa: E731
        wrong = swept(tasks, address, folder / "j")
        if wrong is not None:
            return wrong
        _answer = None
        try:
            rows = run_sweep(tasks, limits=Limits(), engine=address, journal=folder / "j", retry_failed=True)
        except EnvironmentMissing:
            # Dask's own scheduler does not always survive an answer that it cannot send: people start another one.
            cluster.cache_clear()
            address = cluster(False).scheduler_address
            rows = run_sweep(tasks, limits=Limits(), engine=address, journal=folder / "j", retry_failed=True)
    finally:
        on_dask.run_chunk = _real
    own = {task.key for task in tasks}
    if set(Journal(folder / "j").rows()) - own:
        return "a row of no task in the journal"
    return wrong_rows(rows, tasks)


def of_other_code(rng: random.Random, folder: Path) -> Optional[str]:
    """A worker of another version says so in one error; nothing is kept of it."""
    other = identity()._replace(code=noise(rng, (6,)).hex())
    named = on_dask.identity
    on_dask.identity = lambda: other if threading.current_thread() is not threading.main_thread() else named()
    try:
        return swept(some_tasks(rng), cluster(False).scheduler_address, folder / "j")
    finally:
        on_dask.identity = named


def dying_worker(rng: random.Random, folder: Path) -> Optional[str]:
    on_dask.run_chunk = dies
    try:
        return swept(some_tasks(rng), cluster(True).scheduler_address, folder / "j")
    finally:
        on_dask.run_chunk = _real


def frames(rng: random.Random) -> bytes:
    """A message of Dask's protocol: the count of its frames, their lengths, and they; changed."""
    count = rng.choice((0, 1, 2, 1 << 20, 1 << 40, (1 << 64) - 1))
    sizes = [rng.choice((0, 1, 100, 1 << 34, (1 << 64) - 1)) for _ in range(min(count, 3))]
    return struct.pack(f"<Q{len(sizes)}Q", count, *sizes) + noise(rng, (0, 10, 300))


def no_scheduler(rng: random.Random, folder: Path) -> Optional[str]:
    """Something else answers at the address, or nothing."""
    answers = [
        rng.choice(
            (
                noise(rng),
                frames(rng),
                struct.pack("<Q", 8 + rng.choice((0, 40))) + frames(rng),
                b"HTTP/1.1 400 Bad Request\r\n\r\n",
                b"SSH-2.0-OpenSSH_9.6\r\n",
                b"\x15\x03\x01\x00\x02\x02\x28",
                None,
            )
        )
        for _ in range(rng.choice((0, 1, 3)))
    ]
    words = (
        "tcp://127.0.0.1:1",
        "tcp://",
        "tls://127.0.0.1:1",
        "127.0.0.1",
        "inproc://x",
        "ucx://a:1",
        "tcp://[::1",
        "tcp://127.0.0.1:99999",
        "tcp://\x00:1",
        "://",
        "tcp://a b:8786",
        "tcp://127.0.0.1:x",
        "file:///etc/passwd",
        "\ud800",
    )
    tasks = some_tasks(rng)
    if rng.random() < 0.3:
        return swept(tasks, rng.choice(words), folder / "j")
    with serving(answers, rng) as port:
        return swept(tasks, f"tcp://127.0.0.1:{port}", folder / "j")


KINDS: Mapping[Callable[[random.Random, Path], Optional[str]], float] = {
    hostile_workers: 0.7,
    no_scheduler: 0.2,
    of_other_code: 0.08,
    dying_worker: DYING,
}


def dask(rng: random.Random, folder: Path) -> Optional[str]:
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    before, on_dask.CONNECT_S = on_dask.CONNECT_S, CONNECT_S
    try:
        wrong = kind(rng, folder)
    finally:
        on_dask.CONNECT_S = before
    return None if wrong is None else f"{kind.__name__}: {wrong}"
