"""A line on the terminal while a command works: from the third second on, what it does, for how long, and the time left."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Callable, Iterator, List

from edgedla.cli.terminal.screen import CLEAR, columns, is_screen
from edgedla.text.printable import printable

AFTER_S, EVERY_S = 2.0, 0.5


@contextlib.contextmanager
def waiting(what: str, of: int = 1) -> Iterator[Callable[[], None]]:
    """Keeps the line on stderr until the block ends; does nothing where that is no terminal.

    Args:
        of: pieces of work; the function that is yielded says that one more is done.
    """
    done: List[None] = []
    began = time.monotonic()
    stop = threading.Event()

    def draw() -> None:
        wait_s = AFTER_S
        while not stop.wait(wait_s):
            wait_s = EVERY_S
            with contextlib.suppress(OSError, ValueError):
                line = progress(what, time.monotonic() - began, len(done), of)
                sys.stderr.write(CLEAR + line[: (columns(sys.stderr) or 80) - 1])
                sys.stderr.flush()

    thread = threading.Thread(target=draw, name="edgedla-waiting", daemon=True)
    if is_screen(sys.stderr):
        thread.start()
    try:
        yield lambda: done.append(None)
    finally:
        stop.set()
        if thread.is_alive():
            thread.join(2)
        if is_screen(sys.stderr) and time.monotonic() - began >= AFTER_S:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(CLEAR)
                sys.stderr.flush()


def progress(what: str, seconds: float, done: int, of: int) -> str:
    """The line: `checking: 3 of 12, 9 s, about 27 s left`."""
    count = f" {done} of {of}," if of > 1 else ""
    left = f", about {seconds / done * (of - done):.0f} s left" if 0 < done < of else ""
    return f"{printable(what)}:{count} {seconds:.0f} s{left}"
