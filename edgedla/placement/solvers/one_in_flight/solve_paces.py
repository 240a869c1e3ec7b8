"""Two streams with one frame in flight each: bounds from the time their frames wait for each other, and the pairs left."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline, Stopwatch
from edgedla.placement.prediction.one_in_flight import OneInFlight
from edgedla.placement.prediction.streams import GPU_SWITCH_US
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike, floor
from edgedla.placement.solvers.one_in_flight.frames import ModelFrames, Rows, always_visits, joined
from edgedla.placement.solvers.one_in_flight.random_walk import Climber
from edgedla.placement.solvers.one_in_flight.waits import SETTLED, Frames, Sharing
from edgedla.vocabulary import GPU

#: Share of the time limit for finding an order of each model's items.
ORDERING = 0.05

#: Pairs of rows compared at once.
PAIRS = 250_000

#: Pairs of placements evaluated after each bound.
LOOKED_AT = 60

#: Walks from good placements, and the share of the time limit that each may take.
WALKS, WALKING = 3, 0.12

#: Bisection steps to find the shortest period that pairs may keep.
HALVINGS = 24

#: The search gives up on too many placements below this share of the way from the bound to the value.
LEAST_STEP = 0.02


def can_solve(problem: Problem, goal: Goal) -> bool:
    """True for two models with the GPU and one core, or two equal ones, under the conditions that the bounds need."""
    return (
        goal.one_in_flight
        and len(problem.models) == 2
        and GPU in problem.devices
        and len(problem.devices) > 1
        and not problem.slowdown
        and all(problem.items_of(m) for m in (0, 1))
        and (len(problem.cores) == 1 or alike(problem))
        and always_visits(problem)
    )


def solve_paces(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]],
    deadline: Deadline,
    pace: OneInFlight,
    gap: float = GAP,
) -> Solution:
    """The shortest period of two streams, or the best found with a lower bound."""
    watch = Stopwatch()
    best = Best(problem, goal, pace)
    known = list(dict.fromkeys(tuple(a) for a in start))
    timed_out = best.offer_all(known, deadline)
    search = _Search(problem, goal, pace, best, gap, deadline)
    if not search.ended:
        search.look()
        search.walk(known)
    while not search.ended:
        search.look()
    before = INFINITY
    while best.value < before and search.bound < search.limit and not search.late:
        before = best.value
        search.walk(())
    timed_out = timed_out or search.late
    bound = min(search.bound, best.value)
    return Solution(best.evaluation, best.value, bound, "paces", search.rounds, watch.seconds, timed_out)


class _Pairs(NamedTuple):
    """Pairs of rows that may keep a given period."""

    rows: Sequence[Rows]
    first: np.ndarray
    second: np.ndarray

    def frames(self) -> List[Frames]:
        return [self.rows[0].frames.take(self.first), self.rows[1].frames.take(self.second)]


class _Search:
    """The search.

    Attributes:
        bound: no pair of placements has a shorter period.
        ended: the search is complete, or out of time.
    """

    def __init__(
        self, problem: Problem, goal: Goal, pace: OneInFlight, best: Best, gap: float, deadline: Deadline
    ) -> None:
        self.problem, self.best, self.gap, self.rounds = problem, best, gap, 0
        self.deadline, self._limit_s = deadline, deadline.left_s
        self.bound, self.ended = floor(problem, goal), False
        rate_a, rate_b = problem.rates
        self.sharing = Sharing((rate_a, rate_b), GPU_SWITCH_US, pace.one_process, len(problem.cores))
        self.models = [ModelFrames(problem, m, deadline.part(ORDERING)) for m in (0, 1)]
        cores = problem.cores
        self._names = [(GPU, *cores[:1]), (GPU, *cores[-1:])]
        self._climber = Climber(problem, goal, pace, [m.order for m in self.models], self._names)
        self._step = 1.0
        #: Periods of the placements offered so far; infinite if not legal.
        self._seen: Dict[Tuple[str, ...], float] = {}
        self.ended = self.bound >= self.limit or self.late

    @property
    def limit(self) -> float:
        """Periods from here on are not worth searching."""
        return self.best.value * (1 - self.gap)

    @property
    def late(self) -> bool:
        return self.deadline.passed

    def look(self) -> None:
        """Raises `bound`, finds a shorter period, or ends."""
        self.rounds += 1
        limit = self.limit
        asked = self.bound + self._step * (limit - self.bound)
        rows, known = self._rows(asked)
        pairs = self._pairs(rows, asked)
        if self.late:
            self.ended = True
            return
        reached = self._least(pairs, asked)
        self.bound = max(self.bound, reached)
        shorter = known and self._look_at(pairs, reached)
        if self.bound >= self.limit or self.late:
            self.ended = True
        elif shorter:
            self._step = 1.0
        elif reached < asked:
            # A shorter period leaves fewer placements, which allow a better bound.
            self._step /= 2
            self.ended = known or self._step < LEAST_STEP
        else:
            self._step = min(2 * self._step, 1.0)

    def walk(self, starts: Sequence[Tuple[str, ...]]) -> None:
        """Walks from the best placements that use a core; each walk takes a share of the time limit."""
        for assignment in starts:
            if assignment not in self._seen and not self.late:
                self._offer(assignment)
        used = [
            a
            for a in sorted(self._seen, key=self._seen.__getitem__)
            if set(a) & set(self.problem.cores) and self._seen[a] < INFINITY
        ]
        for assignment in used[:WALKS]:
            if self.bound >= self.limit or self.late:
                break
            until = self.deadline.within(WALKING * self._limit_s)
            self._offer(self._climber.climbed(assignment, until))

    def _offer(self, assignment: Tuple[str, ...]) -> None:
        value = self.best.offer(evaluate(self.problem, assignment))
        self._seen[assignment] = INFINITY if value is None else value

    def _rows(self, period_us: float) -> Tuple[List[Rows], bool]:
        """(per model its rows for pairs that keep a period, whether all rows are enumerated placements)."""
        most = [period_us / rate * (1 + SETTLED) for rate in self.sharing.rates]
        rows = [joined(m.whole, m.by_prices(us)) for m, us in zip(self.models, most)]
        known = True
        for m in (0, 1):
            if not len(self._pairs(rows, period_us).first):
                break

            def room(gpu_us: np.ndarray, m: int = m) -> np.ndarray:
                return self._room(gpu_us, m, rows[1 - m].frames, period_us)

            on_core = self.models[m].one_by_one(self.sharing.rates[m], room, self.sharing, period_us, self.deadline)
            if on_core is None:
                known = False
            else:
                rows[m] = joined(self.models[m].whole, on_core)
        return rows, known

    def _room(self, gpu_us: np.ndarray, m: int, others: Frames, period_us: float) -> np.ndarray:
        """The longest frame of model m with this GPU time, some of it on a core, that keeps the period beside any other row."""
        size = len(gpu_us)
        none, some = np.zeros(size), np.ones(size, bool)
        frames = Frames(gpu_us, none, gpu_us, np.full(size, 2.0), some, ~some)
        sharing = self.sharing if m == 0 else self.sharing._replace(rates=self.sharing.rates[::-1])
        column = frames.column()
        wait, other_wait = sharing.waits(column, others, period_us)
        most, other_most = (period_us / rate * (1 + SETTLED) for rate in sharing.rates)
        keeps = sharing.can_keep(column, others, period_us) & (others.own_us + other_wait <= other_most)
        room: np.ndarray = np.where(keeps, most - wait, -1.0).max(axis=1, initial=-1.0)
        return room

    def _pairs(self, rows: Sequence[Rows], period_us: float) -> _Pairs:
        """The pairs that no bound excludes from a period; incomplete if the deadline comes first."""
        first, second = (r.frames for r in rows)
        found_a: List[np.ndarray] = [np.zeros(0, int)]
        found_b: List[np.ndarray] = [np.zeros(0, int)]
        size = max(PAIRS // max(len(second.own_us), 1), 1)
        for start in range(0, len(first.own_us), size):
            if self.late:
                break
            block = np.arange(start, min(start + size, len(first.own_us)))
            a, b = np.nonzero(self.sharing.can_keep(first.take(block).column(), second, period_us))
            found_a.append(block[a])
            found_b.append(b)
        return _Pairs(rows, np.concatenate(found_a), np.concatenate(found_b))

    def _least(self, pairs: _Pairs, period_us: float) -> float:
        """The longest period, up to this one, that no pair keeps."""
        first, second = pairs.frames()
        low, high = 0.0, period_us
        if not len(pairs.first):
            return period_us
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            keeps = self.sharing.can_keep(first, second, middle)
            if keeps.any():
                high, first, second = middle, first.take(keeps), second.take(keeps)
            else:
                low = middle
        return low

    def _look_at(self, pairs: _Pairs, period_us: float) -> bool:
        """Offers the pairs of placements with the shortest bounds; True if one is shorter than the best so far."""
        before = self.best.value
        first, second = pairs.frames()
        waits = self.sharing.waits(first, second, max(period_us, 1e-9))
        rates = self.sharing.rates
        reached = np.maximum(rates[0] * (first.own_us + waits[0]), rates[1] * (second.own_us + waits[1]))
        names = [np.array(n) for n in self._names]
        tried = 0
        for k in np.argsort(reached, kind="stable"):
            if tried >= LOOKED_AT or self.late:
                break
            choices = [rows.devices[at[k]] for rows, at in zip(pairs.rows, (pairs.first, pairs.second))]
            devices: Dict[int, str] = {}
            for model, name, choice in zip(self.models, names, choices):
                devices.update(zip(model.order, name[choice].tolist()))
            assignment = tuple(devices[i] for i in range(len(devices)))
            if assignment not in self._seen:
                self._offer(assignment)
                tried += 1
        return self.best.value < before
