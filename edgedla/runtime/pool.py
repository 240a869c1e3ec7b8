"""Several runners of one model as one: the free one takes the frame, results keep their order, a failing one is taken out."""

from __future__ import annotations

import collections
import concurrent.futures
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.runtime.runners.base import Runner, Ticket, describe, inference_error
from edgedla.runtime.stats import Latency

log = logging.getLogger("edgedla.runtime.pool")


#: How often a waiting `collect` looks whether it was told to give up.
SLICE_S = 0.25
#: Seconds that `close` gives all runners together.
CLOSE_S = 8.0


class Collected(NamedTuple):
    """One finished inference: what it was submitted with, output buffers, where it ran, and for how long."""

    tag: Any
    outputs: Dict[str, np.ndarray]
    runner: str
    simulated: bool
    inference_ms: float


@dataclass
class _Work:
    tag: Any
    inputs: Mapping[str, np.ndarray]
    member: _Member
    ticket: Ticket
    started_s: float
    tried: List[str] = field(default_factory=list)


class _Member:
    def __init__(self, runner: Runner) -> None:
        self.runner, self.busy, self.failures, self.alive = runner, 0, 0, True
        self.latency = Latency()
        self.finished_at = 0.0


class Pool:
    """Runs inferences on the member that will be free first.

    `submit` blocks while every member is full, which is the back-pressure that keeps frames fresh. `collect` gives results
    in the order of submission. A member whose inference fails `failures_allowed` times in a row is taken out with a warning
    and its work goes to the others; without any member left `collect` raises.
    """

    def __init__(
        self, runners: Sequence[Runner], *, depth: int = 1, failures_allowed: int = 1, timeout_s: Optional[float] = 30.0
    ) -> None:
        if not runners:
            raise RunError("a pool needs at least one runner")
        self._members = [_Member(r) for r in runners]
        self._depth, self._allowed, self._timeout_s = depth, failures_allowed, timeout_s
        self._condition = threading.Condition()
        self._queue: Deque[_Work] = collections.deque()
        self._closed = self._abandoned = False

    @property
    def simulated(self) -> bool:
        return any(m.runner.simulated for m in self._members)

    @property
    def capacity(self) -> int:
        """Inferences that can be under way at once."""
        return len(self._members) * self._depth

    def _choose(self) -> Optional[_Member]:
        free = [m for m in self._members if m.alive and m.busy < self._depth]
        # The least busy, then the fastest by its own mean.
        return min(free, key=lambda m: (m.busy, m.latency.total_ms / max(m.latency.count, 1))) if free else None

    def submit(self, inputs: Mapping[str, np.ndarray], tag: Any = None, timeout_s: Optional[float] = None) -> bool:
        """Queues one inference on a free member; False if none became free in time.

        Raises:
            RunError: no member is left, or the pool is closed.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._condition:
            while True:
                if self._closed:
                    raise RunError("the pool is closed")
                if not any(m.alive for m in self._members):
                    raise RunError("every runner failed", hint="the log names each failure")
                member = self._choose()
                if member is not None:
                    break
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._condition.wait(0.5 if left is None else min(left, 0.5))
            member.busy += 1
            self._queue.append(_Work(tag, inputs, member, _ticket(member, inputs), time.monotonic()))
            self._condition.notify_all()
        return True

    def collect(self, timeout_s: Optional[float] = None) -> Optional[Collected]:
        """The oldest inference; None if nothing is queued in time.

        Raises:
            RunError: the inference failed on every member that is left, or `abandon` was called.
        """
        with self._condition:
            if not self._queue:
                self._condition.wait(timeout_s)
            if not self._queue:
                return None
            work = self._queue[0]
        try:
            while True:
                try:
                    found = self._wait(work)
                    break
                except RunError as e:
                    self._failed(work, e)
        finally:
            with self._condition:
                self._queue.popleft()
                work.member.busy -= 1
                self._condition.notify_all()
        # A queued inference waits for the one before it: its own time starts when that one ended.
        now, member = time.monotonic(), work.member
        ms = (now - max(work.started_s, member.finished_at)) * 1e3
        member.finished_at, member.failures = now, 0
        member.latency.add(ms)
        return Collected(work.tag, found, member.runner.name, member.runner.simulated, ms)

    def _wait(self, work: _Work) -> Dict[str, np.ndarray]:
        """The outputs. Waits in slices: a hung driver cannot be interrupted, but we can stop waiting for it."""
        name = work.member.runner.name
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while not work.ticket.done():
            left = SLICE_S if deadline is None else deadline - time.monotonic()
            if self._abandoned:
                raise RunError("an inference was still running when the end was forced", where=name)
            if left <= 0:
                raise RunError(f"no result within {self._timeout_s} s", where=name)
            concurrent.futures.wait([work.ticket], min(left, SLICE_S))
        return work.member.runner.wait(work.ticket, 0)

    def abandon(self) -> None:
        """Gives up what is under way: `collect` raises instead of waiting for it any longer."""
        with self._condition:
            self._abandoned = True
            self._condition.notify_all()

    def _failed(self, work: _Work, error: RunError) -> None:
        """Counts the failure and puts the work on another member; raises where there is none."""
        with self._condition:
            if self._abandoned:
                raise error
            bad = work.member
            bad.failures += 1
            work.tried.append(bad.runner.name)
            if bad.alive and bad.failures >= self._allowed and sum(m.alive for m in self._members) > 1:
                bad.alive = False
                log.warning("%s is taken out after %d failures: %s", bad.runner.name, bad.failures, error.what)
            rest = [m for m in self._members if m.alive and m.runner.name not in work.tried]
            if not rest:
                if bad.failures >= self._allowed:
                    bad.alive = False
                raise error
            other = min(rest, key=lambda m: m.busy)
            bad.busy -= 1
            other.busy += 1
            work.member, work.started_s = other, time.monotonic()
            work.ticket = _ticket(other, work.inputs)
            self._condition.notify_all()

    @property
    def pending(self) -> int:
        with self._condition:
            return len(self._queue)

    @property
    def members(self) -> Tuple[str, ...]:
        """Names of the runners still in use."""
        return tuple(m.runner.name for m in self._members if m.alive)

    def to_dict(self) -> List[Dict[str, Any]]:
        return [
            {
                "runner": m.runner.name,
                "simulated": m.runner.simulated,
                "in_use": m.alive,
                "core_proved": getattr(m.runner, "core_proved", None),
                "inference": m.latency.to_dict(),
            }
            for m in self._members
        ]

    def close(self) -> None:
        with self._condition:
            if self._closed:
                return
            self._closed = True
            self._condition.notify_all()
        # Side by side: several that hang cost the time of one.
        threads = [threading.Thread(target=_close, args=(m.runner,), daemon=True) for m in self._members]
        for t in threads:
            t.start()
        deadline = time.monotonic() + CLOSE_S
        for t in threads:
            t.join(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *reason: Any) -> None:
        self.close()


def _ticket(member: _Member, inputs: Mapping[str, np.ndarray]) -> Ticket:
    """A ticket in any case: a runner that refuses the work is one whose inference failed."""
    try:
        return member.runner.submit(inputs)
    except Exception as e:
        ticket: Ticket = Ticket()
        ticket.set_exception(inference_error(e, member.runner.name))
        return ticket


def _close(runner: Runner) -> None:
    try:
        runner.close()
    except Exception as e:
        log.warning("%s: closing: %s", runner.name, describe(e))
