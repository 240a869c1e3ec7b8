"""The time budget of a deployment: when it is spent, the running step ends and the best result so far counts."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from types import FrameType
from typing import Iterator, Optional

from edgedla.errors import BudgetSpent

#: Ten years: the system refuses alarms in thousands of years.
LONGEST_S = 3e8


class Budget:
    """Seconds from construction, less those that are spent by then; None: no limit.

    Attributes:
        reserve_s: what the work after the last bounded step will take: steps end this much earlier.
    """

    reserve_s = 0.0

    def __init__(self, seconds: Optional[float], spent_s: float = 0.0) -> None:
        self.seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds - spent_s

    @property
    def left_s(self) -> float:
        return float("inf") if self._deadline is None else max(self._deadline - self.reserve_s - time.monotonic(), 0.0)

    @property
    def spent(self) -> bool:
        return self.left_s <= 0

    def check(self) -> None:
        """Raises BudgetSpent if no time is left."""
        if self.spent:
            raise BudgetSpent(f"the budget of {self.seconds:g} s is spent")

    @contextlib.contextmanager
    def bound(self) -> Iterator[None]:
        """Ends the body of the `with` block with BudgetSpent when the budget is spent.

        On the main thread an alarm ends it at once. On other threads it ends only at its beginning and at `check`.
        """
        self.check()
        if self._deadline is None or not _alarms():
            yield
            return

        def over(number: int, frame: Optional[FrameType]) -> None:
            raise BudgetSpent(f"the budget of {self.seconds:g} s is spent")

        before = signal.signal(signal.SIGALRM, over)
        signal.setitimer(signal.ITIMER_REAL, min(max(self.left_s, 1e-3), LONGEST_S))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


def _alarms() -> bool:
    """True if an alarm can be set: on the main thread of a Unix process without another alarm."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return False
    return signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
