"""Whether Ctrl-C is behind an error that names another cause."""

from __future__ import annotations

import signal
from typing import Any, List, Optional

#: Signals of Ctrl-C so far.
_INTERRUPTS: List[int] = []


def note_interruptions() -> None:
    """From now on `was_interrupted` knows of every Ctrl-C, which still raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: Any) -> None:
    _INTERRUPTS.append(number)
    signal.default_int_handler(number, frame)


def was_interrupted(error: Optional[BaseException]) -> bool:
    """Whether Ctrl-C is behind an error: a native library that is being imported makes an ImportError of it.

    NumPy's does so without naming a cause.
    """
    seen = set()
    # A library may raise an error from itself, and the chain would never end.
    while error is not None and id(error) not in seen:
        if isinstance(error, (KeyboardInterrupt, ImportError) if _INTERRUPTS else KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
