"""Several runners of one model as one: the free one takes the frame, results keep their order, a failing one is taken out and
tried again later."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import logging
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import DeviceLost, RunError
from edgedla.runtime.runners.base import Runner, Ticket, close_side_by_side, forget_times, inference_error, stages_of
from edgedla.runtime.runners.member import TRY_AGAIN_S, InferenceLost, Member
from edgedla.runtime.stats import Latency

log = logging.getLogger("edgedla.runtime.pipeline.pool")


#: How often a waiting `collect` checks whether to give up.
SLICE_S = 0.25
#: Seconds that `close` gives all runners together.
CLOSE_S = 8.0


class Collected(NamedTuple):
    """One finished inference: what it was submitted with, output buffers, where it ran, and for how long.

    `inference_ms` is the time on its way through the runner: through all stages of a chain, with its waits between them.
    """

    tag: Any
    outputs: Dict[str, np.ndarray]
    runner: str
    simulated: bool
    inference_ms: float


@dataclass
class _Work:
    tag: Any
    inputs: Mapping[str, np.ndarray]
    member: Member
    ticket: Ticket
    started_s: float
    ended_s: List[float]
    tried: List[str] = field(default_factory=list)


class Pool:
    """Runs inferences on the member that will be free first.

    `submit` blocks while every member is full, which is the back-pressure that keeps frames fresh. `collect` gives results
    in the order of submission. A member whose inference fails is taken out with a warning, and its work goes to the others. After
    TRY_AGAIN_S it gets one inference, and is in use again if that succeeds. Without any member left `collect` raises: InferenceLost
    where a member that worked before will be tried again.

    Args:
        depth: inferences under way in each stage of a member: a chain has one for each of its stages, so that all of them
            work, and not more, so that frames stay fresh.
    """

    def __init__(self, runners: Sequence[Runner], *, depth: int = 1, timeout_s: Optional[float] = 30.0) -> None:
        if not runners:
            raise RunError("a pool needs at least one runner")
        self._members = [Member(r, depth) for r in runners]
        self._timeout_s = timeout_s
        self._condition = threading.Condition()
        self._queue: Deque[_Work] = collections.deque()
        self._closed = self._abandoned = False

    @property
    def simulated(self) -> bool:
        return any(m.runner.simulated for m in self._members)

    @property
    def capacity(self) -> int:
        """Inferences that can be under way at once."""
        return sum(m.limit for m in self._members)

    def _choose(self) -> Optional[Member]:
        now_s = time.monotonic()
        for m in self._members:
            if m.due_s <= now_s:
                m.alive, m.on_trial, m.hung = True, True, None
                return m
        free = [m for m in self._members if m.has_place]
        # The least busy, then the fastest by its own mean.
        return min(free, key=lambda m: (m.load, m.latency.total_ms / max(m.latency.count, 1))) if free else None

    @property
    def turn_s(self) -> float:
        """Seconds from one member becoming free to the next, in the mean; 0 where nothing ran yet."""
        measured = [m for m in self._members if m.alive and m.latency.count]
        per_s = sum(m.limit * m.latency.count / max(m.latency.total_ms, 1e-6) * 1e3 for m in measured)
        return 1 / per_s if per_s else 0.0

    def await_room(self, lead_s: float, timeout_s: float) -> bool:
        """Waits until an inference could be submitted in `lead_s`, as far as the mean of each member tells; False if none
        could in time. A frame taken from its slot sooner would only get older, and block newer ones.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._condition:
            while True:
                now_s = time.monotonic()
                left_s = self._free_in(now_s) - lead_s
                if left_s <= 0:
                    return True
                if now_s >= deadline_s:
                    return False
                self._condition.wait(min(left_s, deadline_s - now_s))

    def _free_in(self, now_s: float) -> float:
        """Seconds until a member is free; 0 if one is, if none is left (`submit` reports it), or if no time is known."""
        soonest_s = math.inf
        for m in self._members:
            if not m.alive:
                continue
            if m.has_place or not m.latency.count:
                return 0.0
            oldest = next((w for w in self._queue if w.member is m), None)
            if oldest is not None:
                began_s = max(oldest.started_s, m.finished_at if m.stages == 1 else 0.0)
                soonest_s = min(soonest_s, began_s + m.latency.total_ms / m.latency.count / 1e3 - now_s)
        if soonest_s < math.inf or any(m.alive for m in self._members):
            return 0.0 if soonest_s == math.inf else soonest_s
        # Nobody takes a frame until the next trial.
        trial_s = min(m.due_s for m in self._members)
        return max(0.0, trial_s - now_s) if self._may_recover() else 0.0

    def _may_recover(self) -> bool:
        """Whether a member that worked before is to be tried again. After the last of TRY_AGAIN_S only a new process helps."""
        return any(m.worked and m.outs <= len(TRY_AGAIN_S) and m.due_s < math.inf for m in self._members)

    def submit(self, inputs: Mapping[str, np.ndarray], tag: object = None, timeout_s: Optional[float] = None) -> bool:
        """Queues one inference on a free member; False if none became free in time.

        Raises:
            RunError: no member is left, or the pool is closed.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._condition:
            while True:
                if self._closed:
                    raise RunError("the pipeline is closed")
                if not any(m.alive for m in self._members) and not self._may_recover():
                    raise RunError("every runner failed", hint="the log names each failure")
                member = self._choose()
                if member is not None:
                    break
                remaining_s = None if deadline is None else deadline - time.monotonic()
                if remaining_s is not None and remaining_s <= 0:
                    return False
                self._condition.wait(0.5 if remaining_s is None else min(remaining_s, 0.5))
            member.busy += 1
            self._queue.append(_Work(tag, inputs, member, *_submitted(member, inputs)))
            self._condition.notify_all()
        return True

    def collect(self, timeout_s: Optional[float] = None) -> Optional[Collected]:
        """The oldest inference; None if nothing is queued in time.

        Raises:
            InferenceLost: the inference failed on every member that is left, and members are tried again.
            RunError: they are not, or `abandon` was called.
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
                    arrays = self._wait(work)
                    break
                except RunError as e:
                    self._failed(work, e)
        finally:
            with self._condition:
                self._queue.popleft()
                work.member.busy -= 1
                self._condition.notify_all()
        # It may have ended long before it was its turn to be collected.
        now, member = (work.ended_s or [time.monotonic()])[0], work.member
        # A queued inference waits for the one before it: its own time starts when that one ended. In a chain several are
        # worked on at once.
        queued_until = member.finished_at if member.stages == 1 else 0.0
        ms = (now - max(work.started_s, queued_until)) * 1e3
        member.finished_at, member.failures, member.worked = now, 0, True
        if member.on_trial:
            member.on_trial, member.outs = False, 0
            log.warning("%s works again", member.runner.name)
        member.latency.add(ms)
        return Collected(work.tag, arrays, member.runner.name, member.runner.simulated, ms)

    def _wait(self, work: _Work) -> Dict[str, np.ndarray]:
        """The outputs. Waits in slices: a hung driver cannot be interrupted, but we can stop waiting for it."""
        name = work.member.runner.name
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while not work.ticket.done():
            remaining_s = SLICE_S if deadline is None else deadline - time.monotonic()
            if self._abandoned:
                raise RunError("an inference was still running when the end was forced", where=name)
            if remaining_s <= 0:
                work.member.hung = work.ticket
                raise RunError(f"no result within {self._timeout_s} s", where=name)
            # `concurrent.futures.wait` would make an event and a waiter for each frame.
            with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                work.ticket.exception(min(remaining_s, SLICE_S))
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
            if isinstance(error, DeviceLost):
                # CUDA is unusable in the whole process, so no other member could do the work.
                for member in self._members:
                    member.alive, member.again_s, member.worked = False, math.inf, False
                raise error
            bad = work.member
            bad.failures += 1
            work.tried.append(bad.runner.name)
            if bad.alive:
                bad.take_out()
                count = f"{bad.failures} failure{'s' * (bad.failures != 1)}"
                log.warning("%s is taken out after %s: %s", bad.runner.name, count, error.what)
            rest = [m for m in self._members if m.alive and m.runner.name not in work.tried]
            if not rest:
                raise InferenceLost(error.what, where=error.where, hint=error.hint) if self._may_recover() else error
            other = min(rest, key=lambda m: m.load)
            bad.busy -= 1
            other.busy += 1
            work.member = other
            work.ticket, work.started_s, work.ended_s = _submitted(other, work.inputs)
            self._condition.notify_all()

    def warm_up(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Fills every member once, and counts no time of it: an engine's first inference takes longer, and may be the one that fails.

        Raises:
            RunError: no member is left.
        """
        count = self.capacity
        for _ in range(count):
            self.submit(inputs)
        for _ in range(count):
            self.collect()
        for m in self._members:
            m.latency, m.finished_at = Latency(), 0.0
            forget_times(m.runner)

    @property
    def pending(self) -> int:
        with self._condition:
            return len(self._queue)

    def to_dict(self) -> List[Dict[str, Any]]:
        return [
            {
                "runner": m.runner.name,
                "simulated": m.runner.simulated,
                "in_use": m.alive and not m.on_trial,
                "core_proved": getattr(m.runner, "core_proved", None),
                "memory": getattr(m.runner, "memory", None),
                "inference": m.latency.to_dict(),
                "stages": stages_of(m.runner),
            }
            for m in self._members
        ]

    def close(self) -> None:
        with self._condition:
            if self._closed:
                return
            self._closed = True
            self._condition.notify_all()
        close_side_by_side([m.runner for m in self._members], CLOSE_S)


def _submitted(member: Member, inputs: Mapping[str, np.ndarray]) -> Tuple[Ticket, float, List[float]]:
    """(ticket, when it was submitted, [when it ended]): a runner that refuses the work is one whose inference failed."""
    started_s = time.monotonic()
    ended_s: List[float] = []
    try:
        ticket = member.runner.submit(inputs)
    except Exception as e:
        ticket = Ticket()
        ticket.set_exception(inference_error(e, member.runner.name))
    # Only the list: a callback that knew the work would keep the frame until the garbage collector comes.
    ticket.add_done_callback(lambda _: ended_s.append(time.monotonic()))
    return ticket, started_s, ended_s
