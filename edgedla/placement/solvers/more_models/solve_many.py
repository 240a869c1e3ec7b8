"""The makespan of several models: lower bounds from pairs of models and from the loads of all, then rounds of placing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

from edgedla.placement.deadline import Deadline, Stopwatch
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution, Value
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike
from edgedla.placement.solvers.busiest.solve_stream import solve_stream
from edgedla.placement.solvers.more_models.relaxed import weighed_bound, with_equal_cores
from edgedla.placement.solvers.rounds import Rounds
from edgedla.placement.solvers.states.item_order import part_of
from edgedla.placement.solvers.two_models.solve_pair import can_solve as can_solve_pair
from edgedla.placement.solvers.two_models.solve_pair import solve_pair
from edgedla.vocabulary import GPU


class _Pair(NamedTuple):
    """Two of the models: their problem with equalised cores, their items in the whole, and their shortest makespan so far."""

    problem: Problem
    members: Tuple[int, ...]
    value: float = INFINITY

    @classmethod
    def of(cls, problem: Problem, models: Sequence[int]) -> _Pair:
        part, members = part_of(problem, sorted(models))
        unequal = len(part.cores) == 2 and not alike(part)
        return cls(with_equal_cores(part) if unequal else part, members)


def can_solve(problem: Problem) -> bool:
    """True for several models with the GPU and a core; also for two models that `solve_pair` does not handle."""
    return (
        len(problem.models) > 1
        and GPU in problem.devices
        and len(problem.devices) > 1
        and all(problem.items_of(m) for m in range(len(problem.models)))
        and all(item.allowed for item in problem.items)
    )


def solve_many(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]],
    deadline: Deadline,
    gap: float = GAP,
    value_of: Optional[Value] = None,
) -> Solution:
    """The shortest schedule found for one frame of every model, and a lower bound.

    Args:
        value_of: length of an assignment's schedule, and its bound.
    """
    watch = Stopwatch()
    starts = [tuple(assignment) for assignment in start]
    best = Best(problem, goal, value_of)
    timed_out = best.offer_all(starts, deadline)
    # A good placement first: what bounds it takes most of the time of a slow machine.
    search = Rounds.of_all(problem, best, deadline)
    search.begin(deadline.part(2 / 3))
    bound, rounds = weighed_bound(problem, goal, best.value, deadline.to_prepare), 0
    seeds, by_pairs = [] if best.evaluation is None else [best.evaluation], False
    if bound < best.value * (1 - gap) and not deadline.passed:
        equal = replace(problem, rates=(1.0,) * len(problem.models))
        stream = solve_stream(equal, Goal("throughput"), starts, deadline.to_prepare, gap)
        bound, rounds = max(bound, stream.bound), stream.rounds
        seeds += [] if stream.best is None else [stream.best]
    if bound < best.value * (1 - gap) and not deadline.passed:
        pairs = _Pairs(problem, best, seeds, gap, value_of)
        bound = pairs.look(bound, deadline.to_prepare)
        search.run(seeds, deadline, bound / (1 - gap))
        # If the rounds ended early, there is time for pairs that the first look left open.
        if not deadline.passed:
            bound = pairs.look(bound, deadline)
            search.run(seeds, deadline, bound / (1 - gap))
        rounds += pairs.rounds
        by_pairs = pairs.rounds > 0
    timed_out = timed_out or bound < best.value * (1 - gap)
    return Solution(
        best.evaluation,
        best.value,
        min(bound, best.value),
        "rounds",
        rounds,
        watch.seconds,
        timed_out,
        one_core_per_model=by_pairs and len(problem.cores) > 1,
    )


class _Pairs:
    """Bounds from two models at a time. Their placements, with the other models added, go to `seeds`."""

    def __init__(self, problem: Problem, best: Best, seeds: List[Evaluation], gap: float, value_of: Optional[Value]) -> None:
        self._problem, self._best, self._seeds, self._gap, self._value_of = problem, best, seeds, gap, value_of
        alone_us = [min((e.latency(m).latency_us for e in seeds), default=0.0) for m in range(len(problem.models))]
        longest_first = sorted(range(len(alone_us)), key=lambda m: -alone_us[m])
        two = itertools.combinations(longest_first, 2)
        pairs = [_Pair.of(problem, models) for models in two]
        self._pairs = [pair for pair in pairs if can_solve_pair(pair.problem, Goal("makespan"))]
        self.rounds = 0

    def look(self, bound: float, until: Deadline) -> float:
        """The bound, raised as far as the pairs allow until then; pairs with the longest known makespan come first."""
        self._pairs.sort(key=lambda pair: -pair.value)
        for k, pair in enumerate(self._pairs):
            if until.passed or bound >= min(self._best.value, pair.value) * (1 - self._gap):
                continue
            starts = [tuple(e.assignment[i] for i in pair.members) for e in self._seeds]
            goal, end = Goal("makespan"), until.part(1 / (len(self._pairs) - k))
            solution = solve_pair(pair.problem, goal, starts, end, self._gap, self._value_of)
            bound, self.rounds = max(bound, solution.bound), self.rounds + solution.rounds
            self._pairs[k] = pair._replace(value=min(pair.value, solution.value))
            if solution.best is not None:
                self._seeds += self._filled(pair, solution.best)
        return bound

    def _filled(self, pair: _Pair, placed: Evaluation) -> List[Evaluation]:
        """The pair's placement, with the other models as in the best known one, and on the GPU where allowed."""
        items, known = self._problem.items, self._best.evaluation
        on_gpu = tuple(GPU if GPU in item.allowed else item.allowed[0] for item in items)
        swap = dict(zip(self._problem.cores, self._problem.cores[::-1]))
        filled: List[Evaluation] = []
        for others in (on_gpu,) if known is None else (known.assignment, on_gpu):
            for mirrored in (False, True):
                devices = list(others)
                for i, device in zip(pair.members, placed.assignment):
                    devices[i] = swap.get(device, device) if mirrored else device
                if all(device in item.allowed for device, item in zip(devices, items)):
                    filled.append(evaluate(self._problem, devices))
        return filled
