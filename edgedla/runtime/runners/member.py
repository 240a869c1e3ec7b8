"""A runner in a pool: what is under way on it, whether it is in use, and when it is tried again after a failure."""

from __future__ import annotations

import math
import time
from typing import Optional

from edgedla.errors import RunError
from edgedla.runtime.runners.base import Runner, Ticket
from edgedla.runtime.stats import Latency

#: Seconds until a runner that was taken out is tried again: after its first failure, its second, and each further one.
TRY_AGAIN_S = (10.0, 60.0, 300.0)


class InferenceLost(RunError):
    """One inference has no result; the runners are tried again, and the work goes on."""


class Member:
    """A runner with what a pool knows of it. The pool's lock guards it."""

    def __init__(self, runner: Runner, depth: int) -> None:
        self.runner, self.busy, self.failures, self.alive = runner, 0, 0, True
        self.stages: int = getattr(runner, "stage_count", 1)
        self.limit = depth * self.stages
        self.latency = Latency()
        self.finished_at = 0.0
        #: How often it was taken out since its last result, when it is tried again, and whether that is being done.
        self.outs, self.again_s, self.on_trial = 0, math.inf, False
        #: Inferences that gave no result in time: while one runs, the next would only wait behind it.
        self.hung: Optional[Ticket] = None
        self.worked = False

    @property
    def has_place(self) -> bool:
        return self.alive and self.busy < (1 if self.on_trial else self.limit)

    @property
    def due_s(self) -> float:
        """time.monotonic() of its next trial; infinity for one in use, and while an inference on it hangs."""
        return math.inf if self.alive or (self.hung is not None and not self.hung.done()) else self.again_s

    def take_out(self) -> None:
        self.alive, self.on_trial = False, False
        self.again_s = time.monotonic() + TRY_AGAIN_S[min(self.outs, len(TRY_AGAIN_S) - 1)]
        self.outs += 1

    @property
    def load(self) -> float:
        """Share of its inferences that are under way."""
        return self.busy / self.limit
