"""Files of JSON lines that are ours to append to, to rotate and to remove."""

from __future__ import annotations

import json
import os
from typing import Sequence, Tuple

from edgedla.errors import UsageError

#: Keys that tell a line of results or events, and one of a pipeline's numbers, from those of others.
RESULTS: Sequence[Tuple[str, ...]] = (("frame", "results"), ("event", "state"))
NUMBERS: Sequence[Tuple[str, ...]] = (("frames", "stages"),)
#: How such lines begin.
_BEGINNINGS = tuple(f'{{"{key}"'.encode() for key in ("frame", "source", "model", "event", "time"))
#: Lines at a file's beginning that power cuts may have ended.
_MOST_CUT = 8
#: Longer is no line of ours.
_MOST_BYTES = 1 << 24


def is_ours(path: str, kinds: Sequence[Tuple[str, ...]]) -> bool:
    """Whether a file is empty or the first whole line in it has all keys of one of these kinds.

    A power cut ends a line half-way or leaves zeros in its place; the run after it goes on with a line of its own.

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
    """Lets a file pass that is not there, that is no regular one (a pipe), or that is ours.

    Raises:
        UsageError: somebody else's file. OSError: it cannot be read.
    """
    if os.path.isfile(path) and not is_ours(path, kinds):
        raise UsageError(
            "this file exists and holds something other than results of `edgedla run`", where=path,
            allowed="a new file, or one that `edgedla run` wrote", hint="give the output another file",
        )  # fmt: skip


def remove_beyond(path: str, keep: int, kinds: Sequence[Tuple[str, ...]]) -> None:
    """Removes PATH.N of ours for the numbers that follow `keep`: those of a time when more were kept.

    Raises:
        OSError: one cannot be removed.
    """
    number = keep + 1
    while os.path.isfile(f"{path}.{number}") and is_ours(f"{path}.{number}", kinds):
        os.unlink(f"{path}.{number}")
        number += 1


def ends_in_a_line(path: str) -> bool:
    """False where a power cut left half a line at the end."""
    with open(path, "rb") as f:
        if not f.seek(0, os.SEEK_END):
            return True
        f.seek(-1, os.SEEK_END)
        return f.read(1) == b"\n"
