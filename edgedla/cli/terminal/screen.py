"""What a stream is: a terminal on which a line can be written again, and how wide."""

from __future__ import annotations

import contextlib
import os
from typing import Optional, TextIO

#: Terminal codes: go to the first column, clear the line.
CLEAR = "\r\x1b[K"


def columns(stream: Optional[TextIO]) -> int:
    """The terminal's width, or COLUMNS; 0 for a stream that is no terminal."""
    if stream is None or stream.closed or not stream.isatty():
        return 0
    with contextlib.suppress(ValueError):
        given = int(os.environ.get("COLUMNS", ""))
        if given > 0:
            return given
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns
    return 0


def is_screen(stream: Optional[TextIO]) -> bool:
    """Whether the stream is a terminal that can move its cursor; a dumb one would print the codes."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
