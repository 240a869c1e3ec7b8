"""The throughput of a stream: each set of engines searched wider and wider, until the bound meets the best placement."""

from __future__ import annotations

import time
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from edgedla.placement.problem.baselines import after_cap
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution, legal, measure_of
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.lower_bounds import engine_sets, floor_on
from edgedla.placement.solvers.streams.engine_search import EngineSearch

#: (partial placements that go on from each item to the next, states before one item, rounds of moves that improve the best
#: placement before, times the items), sweep by sweep. The first ones shall meet good placements soon: those make most states needless.
SIZES: Tuple[Tuple[int, int, int], ...] = (
    (500, 40, 0),
    (1_000, 200, 0),
    (4_000, 400, 0),
    (16_000, 1_000, 2_500),
    (64_000, 4_000, 2_500),
)

#: Width before whose sweep a bound by other means is asked for.
WIDE = 16_000


class _Best:
    """The best legal assignment offered so far."""

    def __init__(self, problem: Problem, goal: Goal, gap: float) -> None:
        self.problem, self.goal, self.gap = problem, goal, gap
        self.measure = measure_of(goal, None)
        self.evaluation: Optional[Evaluation] = None
        self.value = INFINITY

    @property
    def limit(self) -> float:
        """Values from here on are of no interest."""
        return self.value * (1 - self.gap)

    def offer(self, assignments: Iterable[Sequence[str]]) -> None:
        for assignment in assignments:
            for tried in (assignment, after_cap(self.problem, tuple(assignment))):
                e = evaluate(self.problem, tried)
                if legal(self.problem, e, self.goal):
                    reached, _ = self.measure(self.problem, e)
                    if reached < self.value * (1 - 1e-9):
                        self.evaluation, self.value = e, reached
                    break


def solve_stream(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    time_limit_s: float = 10.0,
    gap: float = GAP,
    rival: Optional[Callable[[float], float]] = None,
    more_s: float = 0.0,
) -> Solution:
    """The least period, with proof where the searches come to an end; without, the best placement met and a bound.

    They do not end where a limit of the problem binds that they know nothing of: caps, sizes, pools, and loadables that
    TensorRT parts because of different batches.

    Args:
        rival: a bound by other means, given the best period known; 0 where it has none.
        more_s: time on top of the limit that the searches may take where they know more than `rival`.
    """
    began = time.monotonic()
    deadline = began + time_limit_s
    best = _Best(problem, goal, gap)
    best.offer(start)
    floors = {engines: floor_on(problem, goal, engines) for engines in engine_sets(problem, goal)}
    bounds: Dict[Tuple[str, ...], float] = {engines: bound for engines, (bound, _) in floors.items()}
    searches: List[EngineSearch] = []
    rounds, timed_out = 0, False
    for engines in sorted(floors, key=lambda s: bounds[s]):
        timed_out = timed_out or time.monotonic() > deadline
        if timed_out or bounds[engines] >= best.limit:
            continue
        search = EngineSearch(problem, goal, engines, *floors[engines], deadline)
        if search.bound < best.limit:
            for assignments in search.first_looks(best.limit):
                best.offer(assignments)
                if search.bound >= best.limit or search.stopped:
                    break
        bounds[engines] = search.bound
        searches.append(search)
    for width, most_states, moves in SIZES:
        known = min(bounds.values(), default=INFINITY)
        if width == WIDE and rival and not timed_out and known < best.limit and 0 < rival(best.value) <= known:
            deadline += more_s
            for search in searches:
                search.deadline = deadline
        for search in sorted(searches, key=lambda s: (s.bound, s.engines)):
            if timed_out or search.complete or search.bound >= best.limit:
                continue
            if best.evaluation is not None:
                for assignment in search.shorter(best.evaluation.assignment, moves // len(problem.items)):
                    best.offer([assignment])
                    if search.bound >= best.limit:
                        break
            if search.bound < best.limit:
                best.offer(search.look(best.limit, width, most_states))
                rounds += 1
                bounds[search.engines] = search.bound
                timed_out = search.stopped
    bound = min(min(bounds.values(), default=INFINITY), best.value)
    return Solution(best.evaluation, best.value, bound, "sweep", rounds, time.monotonic() - began, timed_out)
