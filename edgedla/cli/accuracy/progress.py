"""Lines and bars on stderr while `quantize` and `evaluate` work."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

from edgedla.cli.output import echo
from edgedla.cli.terminal.screen import is_screen


def say(line: str) -> None:
    """One line per phase, on stderr."""
    echo(line, err=True)


@contextmanager
def progress_bar() -> Iterator[Optional[Callable[[str, int, int], None]]]:
    """A function (phase, done, of) that draws a bar on stderr; None where stderr is no terminal."""
    if not is_screen(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: Any = {}

        def show(phase: str, done: int, of: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=of)
            bars.update(tasks[phase], completed=done)

        yield show
