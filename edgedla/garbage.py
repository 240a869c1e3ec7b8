"""Pauses of Python's garbage collection, where next to nothing that is made is garbage in a circle."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import Iterator


@contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """Pauses garbage collection while many objects are made that stay in use: each collection looks at all of them again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            if gc.get_freeze_count() == 0:
                # Else the first collection afterwards would look at every object made so far. Freezing and unfreezing
                # moves them to the oldest generation unseen.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
