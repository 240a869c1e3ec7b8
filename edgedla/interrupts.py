"""Ctrl-C and imports."""

from __future__ import annotations

import contextlib
import signal
from typing import Iterator


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """SIGINT waits until the block is left. For imports: an interrupt that Python raises in the callback of an import
    lock is printed and forgotten, and a command that should have ended runs on.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
