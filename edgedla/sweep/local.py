"""The local engine: the requested number of workers, each with a child process of its own."""

from __future__ import annotations

import queue
import threading
from typing import Dict, Iterator, List, Sequence, Set

from edgedla.sweep.row import Row
from edgedla.sweep.task import Task
from edgedla.sweep.worker import Limits, Worker


def chunks_of(tasks: Sequence[Task]) -> List[List[Task]]:
    """Tasks to run together on one worker: those of a model share its import. Board tasks run singly."""
    chunks: Dict[str, List[Task]] = {}
    for task in tasks:
        chunks.setdefault(f"board {task.board}" if task.board else task.model, []).append(task)
    return list(chunks.values())


def run_local(tasks: Sequence[Task], limits: Limits, jobs: int) -> Iterator[Row]:
    """Rows as they finish. Ending the iteration early ends the workers."""
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    for chunk in sorted(chunks_of(tasks), key=len, reverse=True):
        waiting.put(chunk)
    done: queue.SimpleQueue = queue.SimpleQueue()
    stop = threading.Event()
    workers: Set[Worker] = set()

    def work() -> None:
        worker = Worker(limits)
        workers.add(worker)
        try:
            while not stop.is_set():
                try:
                    chunk = waiting.get_nowait()
                except queue.Empty:
                    return
                for task in chunk:
                    if stop.is_set():
                        return
                    done.put(worker.run(task))
        except BaseException as e:
            done.put(e)
        finally:
            worker.close()

    threads = [threading.Thread(target=work, name=f"sweep-{n}", daemon=True) for n in range(max(1, jobs))]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            row = done.get()
            if isinstance(row, BaseException):
                raise row
            yield row
    finally:
        stop.set()
        for worker in list(workers):
            worker.kill()
        for thread in threads:
            thread.join(5)
