"""Two streams with one frame in flight each: a bound from the time their frames wait for each other, rounds and random walks."""

from __future__ import annotations

from typing import Dict, Iterable, Sequence, Tuple

from edgedla.placement.deadline import Deadline, Stopwatch
from edgedla.placement.prediction.one_in_flight import OneInFlight
from edgedla.placement.prediction.streams import GPU_SWITCH_US
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule import shortest_schedule
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike, floor
from edgedla.placement.solvers.one_in_flight.frames import least_period
from edgedla.placement.solvers.one_in_flight.random_walk import Climber
from edgedla.placement.solvers.one_in_flight.waits import Sharing
from edgedla.placement.solvers.rounds import PAIRS
from edgedla.placement.solvers.two_models.pair_search import PairSearch
from edgedla.vocabulary import GPU


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
        and _always_visits(problem)
    )


def _always_visits(problem: Problem) -> bool:
    """True if a model on a core visits the GPU before and after it: all items are fed and read, and reformats take time."""
    fed = {c for f in problem.flows for c in f.consumers}
    read = {f.producer for f in problem.flows if f.consumers or f.is_output}
    items = set(range(len(problem.items)))

    def takes_time(pair: Tuple[str, str]) -> bool:
        return all(f.cost(*pair).latency_us > 0 for f in problem.flows)

    return items <= fed and items <= read and all(takes_time(p) for p in ((GPU, "DLA0"), ("DLA0", GPU)))


def solve_paces(
    problem: Problem, goal: Goal, start: Iterable[Sequence[str]], deadline: Deadline, pace: OneInFlight, gap: float = GAP
) -> Solution:
    """The shortest period of two streams that is found, with a lower bound."""
    watch = Stopwatch()
    search = _Search(problem, goal, pace, start)
    best, bound, rounds = search.best, floor(problem, goal), 0
    sharing = Sharing((problem.rates[0], problem.rates[1]), GPU_SWITCH_US, pace.kernels, len(problem.cores))
    if best.evaluation is not None:
        bound = max(bound, least_period(problem, sharing, bound, best.value))
    before = INFINITY
    while best.value < before and bound < best.value * (1 - gap) and not deadline.passed:
        before, rounds = best.value, rounds + 1
        if rounds == 1:
            search.offer_short(gap, deadline)
        search.walk(deadline)
    timed_out = deadline.passed
    return Solution(best.evaluation, best.value, min(bound, best.value), "paces", rounds, watch.seconds, timed_out)


class _Search:
    """Placements and their periods; `best` keeps the best legal one."""

    def __init__(self, problem: Problem, goal: Goal, pace: OneInFlight, start: Iterable[Sequence[str]]) -> None:
        self.problem, self.best = problem, Best(problem, goal, pace)
        cores = problem.cores
        self._climber = Climber(problem, goal, pace, [(GPU, *cores[:1]), (GPU, *cores[-1:])])
        #: Periods of the placements met so far; infinite if not legal.
        self._met: Dict[Tuple[str, ...], float] = {}
        for assignment in start:
            self._offer(evaluate(problem, assignment))

    def _offer(self, evaluation: Evaluation) -> None:
        if evaluation.assignment not in self._met:
            value = self.best.offer(evaluation)
            self._met[evaluation.assignment] = INFINITY if value is None else value

    def offer_short(self, gap: float, deadline: Deadline) -> None:
        """Placements with short schedules of one frame each have short periods too: offers all that a search for them meets."""

        def length(problem: Problem, evaluation: Evaluation) -> Tuple[float, float]:
            self._offer(evaluation)
            schedule = shortest_schedule(problem, evaluation, deadline)
            return schedule.length_us, schedule.bound_us

        shortest = Best(self.problem, Goal("makespan"), length)
        shortest.offer_all(list(self._met), deadline)
        PairSearch(self.problem, self.problem.devices, shortest, gap, deadline).improve(deadline)

    def walk(self, deadline: Deadline) -> None:
        """Walks from the best placements that use a core, each with an equal part of the time left."""
        on_core = [a for a, period_us in self._met.items() if set(a) & set(self.problem.cores) and period_us < INFINITY]
        begins = sorted(on_core, key=self._met.__getitem__)[:PAIRS]
        for k, assignment in enumerate(begins):
            self._offer(evaluate(self.problem, self._climber.climbed(assignment, deadline.part(1 / (len(begins) - k)))))
