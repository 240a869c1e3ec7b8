"""A daemon thread that runs calls in order. A call that hangs in a driver does not delay the end of the process."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import Any, Callable, Optional, Tuple, TypeVar

T = TypeVar("T")
_Call = Tuple["Future[Any]", Callable[..., Any], Tuple[Any, ...]]


class Worker:
    """Like a ThreadPoolExecutor with one thread, but the interpreter does not join it at exit."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Optional[_Call]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[..., T], *arguments: object) -> Future[T]:
        future: Future[T] = Future()
        self._calls.put((future, call, arguments))
        return future

    def _run(self) -> None:
        while True:
            item = self._calls.get()
            if item is None:
                return
            future, call, arguments = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call(*arguments))
            except BaseException as e:
                # Also SystemExit and similar: the waiting caller must get it, and the thread must serve the next call.
                future.set_exception(e)
            # Otherwise the last frame's buffers would live until the next frame.
            del item, future, call, arguments

    def close(self, timeout_s: float) -> bool:
        """Ends the thread after the queued calls; False if a call still hangs after `timeout_s` (the thread is abandoned)."""
        self._calls.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()
