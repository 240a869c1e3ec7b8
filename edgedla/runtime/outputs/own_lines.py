"""Files of JSON lines that are ours to append to, rotate and remove."""

from __future__ import annotations

import json
import os
import time
from typing import Sequence, Tuple

from edgedla.errors import UsageError

#: Keys that identify a line of results or events (elsewhere: of metrics) as ours.
RESULTS: Sequence[Tuple[str, ...]] = (("frame", "results"), ("event", "state"))
NUMBERS: Sequence[Tuple[str, ...]] = (("frames", "stages"),)
#: Possible first bytes of our lines.
_BEGINNINGS = tuple(f'{{"{key}"'.encode() for key in ("frame", "source", "model", "event", "time"))
#: Most lines at a file's start that may be damaged by power cuts.
_MOST_CUT = 8
#: Our lines are not longer.
_MOST_BYTES = 1 << 24
#: A write of a line takes microseconds; one whose process waits for a core, milliseconds.
_SECOND_LOOK_S = 0.05


def is_ours(path: str, kinds: Sequence[Tuple[str, ...]]) -> bool:
    """True if a file is empty, or if its first complete line has all keys of one of these kinds.

    A power cut truncates a line or leaves zeros; the next run continues on a new line.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as f:
        for _ in range(_MOST_CUT):
            line = f.readline(_MOST_BYTES)
            if not line:
                return True
            text = line.strip(b"\0\n")
            try:
                document = json.loads(text) if text else None
            except (ValueError, RecursionError):
                if not text.startswith(_BEGINNINGS):
                    return False
                continue
            if text:
                return isinstance(document, dict) and any(all(key in document for key in keys) for keys in kinds)
    return False


def require_ours(path: str, kinds: Sequence[Tuple[str, ...]]) -> None:
    """Accepts a file that does not exist, is not a regular file (a pipe), or is ours.

    Raises:
        UsageError: a file of other origin. OSError: it cannot be read.
    """
    if os.path.isfile(path) and not is_ours(path, kinds):
        raise UsageError(
            "this file exists and holds something other than results of `edgedla run`",
            where=path,
            allowed="a new file, or one that `edgedla run` wrote",
            hint="give the output another file",
        )


def remove_beyond(path: str, keep: int, kinds: Sequence[Tuple[str, ...]]) -> None:
    """Removes our files PATH.N with numbers above `keep`, left from a time when more were kept.

    Raises:
        OSError: one cannot be removed.
    """
    number = keep + 1
    while os.path.isfile(f"{path}.{number}") and is_ours(f"{path}.{number}", kinds):
        os.unlink(f"{path}.{number}")
        number += 1


def ends_in_a_line(path: str) -> bool:
    """False if a power cut left a truncated line at the end.

    A line that another process writes right now can be seen by half, where it crosses a page of the file: what is truncated
    still is at a second look.
    """
    with open(path, "rb", buffering=0) as f:
        for pause_s in (0.0, _SECOND_LOOK_S):
            time.sleep(pause_s)
            if not f.seek(0, os.SEEK_END):
                return True
            f.seek(-1, os.SEEK_END)
            if f.read(1) == b"\n":
                return True
    return False
