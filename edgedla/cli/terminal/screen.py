"""Whether a stream is a terminal on which a line can be written again."""

from __future__ import annotations

import os
from typing import Optional, TextIO


def is_screen(stream: Optional[TextIO]) -> bool:
    """Whether the stream is a terminal that can move its cursor; a dumb one would print the codes."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
