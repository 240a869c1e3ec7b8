"""Memory of a process: of one that runs for months (few arenas, free memory given back, garbage collected often), or that answers."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from typing import Iterator

#: mallopt's parameters (glibc, malloc.h).
_M_ARENA_MAX, _M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -8, -3, -1
#: Frames of a few hundred kB come from arenas: one is allocated by a source's thread and freed by whichever thread was its last
#: reader. With glibc's default of eight arenas a core, each of them grows to the most that ever lay in it.
ARENAS = 2
#: Python's own, up to 3.13. The command line raises them for models of many small values; a pipeline at rest makes next to no
#: garbage, and the little it makes may hold frames of megabytes.
THRESHOLDS = (700, 10, 10)


def limit_arenas(most: int = ARENAS) -> bool:
    """Lets the process make no further malloc arenas beyond `most`; False where there is no glibc, or the environment says.

    Call it before threads start: arenas that exist stay.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "glibc.malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    return c_library("mallopt", _M_ARENA_MAX, most)


def give_back() -> None:
    """Gives free memory back to the system: what glibc holds beside pieces in use stays with the process otherwise."""
    c_library("malloc_trim", 0)


def reuse_freed() -> None:
    """Keeps freed memory for what comes next: to give it back and take it anew costs a page fault for each 4 KiB."""
    c_library("mallopt", _M_MMAP_THRESHOLD, 32 << 20)
    c_library("mallopt", _M_TRIM_THRESHOLD, 128 << 20)


def c_library(function: str, *given: int) -> bool:
    """Calls a function of the C library; False where it has none of that name, or says 0."""
    try:
        import ctypes

        return bool(getattr(ctypes.CDLL(None), function)(*given))
    except (ImportError, OSError, AttributeError, TypeError):
        return False


def collect_often() -> None:
    """For the steady part of a process: new garbage goes soon, and what the start made is not looked through each time."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()


@contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """Pauses garbage collection while many objects are made that stay in use: each collection looks at all of them again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Nothing else of the caller's collector changes: `gc.freeze` would clear its counters, and with a freeze in each call the
        # oldest generation of a process that calls in a loop is never collected.
        if running:
            gc.enable()
