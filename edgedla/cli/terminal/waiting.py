"""A line on the terminal while a command works: from the third second on, what it does, for how long, and the time left."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Callable, Iterator, Optional

from edgedla.cli.arguments.began import spent_s
from edgedla.cli.terminal.screen import CLEAR, columns, is_screen
from edgedla.text.printable import printable

AFTER_S, EVERY_S = 2.0, 0.5
#: Columns assumed where the terminal does not report them.
WIDTH = 80
#: _terminal: held while the line is drawn, or text is printed in its place. _drawn: whether the line is on the terminal.
_terminal, _drawn = threading.RLock(), threading.Event()


class Work:
    """A phase and its pieces, which the line shows: set by the thread that works, read by the one that draws."""

    def __init__(self, what: str, of: int) -> None:
        self._command, self.what, self.done, self.of = what, what, 0, of
        self._first, self._began = 0, time.monotonic()

    def show(self, what: str, done: int, of: int) -> None:
        """Says how many pieces of a phase are done. What is done when a phase begins cost no time."""
        if what != self.what:
            self._first, self._began = done, time.monotonic()
        # Behind a phase's last piece only the command is known to be under way.
        self.what, self.done, self.of = (what, done, of) if done < of else (self._command, 0, 1)

    def left_s(self) -> Optional[float]:
        """Seconds to the end of the phase at its pace so far; None where nothing tells."""
        done = self.done - self._first
        if done <= 0 or self.done >= self.of:
            return None
        return (time.monotonic() - self._began) / done * (self.of - self.done)


@contextlib.contextmanager
def waiting(what: str, of: int = 1, limit_s: Optional[float] = None) -> Iterator[Work]:
    """Keeps the line on stderr until the block ends; does nothing where that is no terminal.

    Args:
        of: pieces of work, which the caller counts in `done` of what is yielded. limit_s: processor seconds that the command may take.
    """
    work, began = Work(what, of), time.monotonic()
    end_s = None if limit_s is None else time.process_time() - spent_s() + limit_s

    def line(width: int) -> str:
        most_s = None if end_s is None else end_s - time.process_time()
        return progress(work.what, time.monotonic() - began, work.done, work.of, work.left_s(), most_s)[: width - 1]

    with drawn(line, AFTER_S, EVERY_S):
        yield work


@contextlib.contextmanager
def drawn(line: Callable[[int], str], after_s: float, every_s: float) -> Iterator[None]:
    """Keeps a line on stderr, drawn again and again, until the block ends; does nothing where that is no terminal.

    Args:
        line: (columns) -> the line as it is now. after_s: when it is drawn first.
    """
    stop = threading.Event()

    def draw() -> None:
        wait_s = after_s
        while not stop.wait(wait_s):
            wait_s = every_s
            with contextlib.suppress(OSError, ValueError), _terminal:
                if stop.is_set():
                    return
                sys.stderr.write(CLEAR + line(columns(sys.stderr) or WIDTH))
                sys.stderr.flush()
                _drawn.set()

    if is_screen(sys.stderr):
        threading.Thread(target=draw, name="edgedla-line", daemon=True).start()
    try:
        yield
    finally:
        with in_its_place():
            stop.set()


@contextlib.contextmanager
def in_its_place() -> Iterator[None]:
    """Text may be printed within the block: the line is erased, and drawn again after it."""
    with _terminal:
        if _drawn.is_set():
            _drawn.clear()
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(CLEAR)
                sys.stderr.flush()
        yield


def progress(
    what: str, seconds: float, done: int, of: int, left_s: Optional[float] = None, most_s: Optional[float] = None
) -> str:
    """The line: `checking: 3 of 12, 9 s, about 27 s left`."""
    count = f" {done} of {of}," if of > 1 else ""
    left = "" if left_s is None else f", about {left_s:.0f} s left"
    left += "" if most_s is None else f", at most {max(0.0, most_s):.0f} s of processor time left"
    return f"{printable(what)}:{count} {seconds:.0f} s{left}"
