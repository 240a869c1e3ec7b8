"""The time that a deployment may take: steps are ended when it is over, and what was reached by then stands."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from types import FrameType
from typing import Iterator, Optional


class BudgetSpent(BaseException):
    """The budget is over. It ends a step, never a deployment.

    No Exception, as KeyboardInterrupt is none: what catches errors on the way must not take it for one of its own.
    """


class Budget:
    """Seconds from the making of it; None: as long as it takes."""

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return float("inf") if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    @property
    def spent(self) -> bool:
        return self.left_s <= 0

    def check(self) -> None:
        """Raises BudgetSpent where nothing is left."""
        if self.spent:
            raise BudgetSpent(f"the budget of {self.seconds:g} s is spent")

    @contextlib.contextmanager
    def bound(self) -> Iterator[None]:
        """Ends what runs inside with BudgetSpent when the time is over.

        On the main thread at once, by an alarm; on another only where the work asks `check`, and before it begins.
        """
        self.check()
        if self._deadline is None or not _alarms():
            yield
            return

        def over(number: int, frame: Optional[FrameType]) -> None:
            raise BudgetSpent(f"the budget of {self.seconds:g} s is spent")

        before = signal.signal(signal.SIGALRM, over)
        signal.setitimer(signal.ITIMER_REAL, max(self.left_s, 1e-3))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


def _alarms() -> bool:
    """Whether an alarm can be set: on the main thread of a Unix process that has none set already."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return False
    return signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
