"""Waits for the action of another thread or process; the limits allow for a busy machine."""

from __future__ import annotations

import time
from typing import Callable


def until(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    """True as soon as the condition holds; False where it did not in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.03)
    return bool(condition())
