"""The makespan of two models: every set of engines, the largest first."""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from edgedla.placement.deadline import Deadline, Stopwatch
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution, Value
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike, engine_sets, floor_on
from edgedla.placement.solvers.two_models.pair_search import PairSearch
from edgedla.vocabulary import GPU


def can_solve(problem: Problem, goal: Goal) -> bool:
    """Two models with the GPU, on cores that are alike, and loadables that hold any layers of their model."""
    on_cores = [[i for i in problem.items_of(m) if set(problem.items[i].allowed) - {GPU}] for m in range(len(problem.models))]
    return (
        len(problem.models) == 2
        and GPU in problem.devices
        and len(problem.devices) > 1
        and not goal.is_bounded
        and all(problem.items_of(m) for m in (0, 1))
        and all(len({problem.items[i].batch for i in on_cores[m]}) <= 1 for m in (0, 1))
        and (len(problem.cores) == 1 or alike(problem))
    )


def solve_pair(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]],
    deadline: Deadline,
    gap: float = GAP,
    value_of: Optional[Value] = None,
) -> Solution:
    """The shortest schedule of one frame of each model over all placements, or the best met with a bound.

    Args:
        value_of: length of an assignment's schedule, and its bound.
    """
    watch = Stopwatch()
    best = Best(problem, goal, value_of)
    timed_out = best.offer_all(start, deadline)
    bounds: Dict[Tuple[str, ...], float] = {}
    searches: List[PairSearch] = []
    # The most engines first: what is known of them says something of fewer.
    for engines in sorted(_not_covered(problem, engine_sets(problem, goal)), key=len, reverse=True):
        by_more = _by_more(problem, engines, bounds, best.value * (1 - gap))
        bounds[engines] = max(floor_on(problem, goal, engines)[0], by_more)
        # However late it is, the first one dives once.
        if bounds[engines] < best.value * (1 - gap) and (not searches or not deadline.passed):
            searches.append(PairSearch(problem, engines, best, gap, deadline))
            bounds[engines] = max(bounds[engines], searches[-1].bound)
    for k, search in enumerate(searches):
        engines = search.pair.engines
        search.bound = max(search.bound, _by_more(problem, engines, bounds, search.pair.limit))
        search.pair.deadline = deadline.part(1 / (len(searches) - k))
        search.run()
        bounds[engines] = search.bound
    timed_out = timed_out or deadline.passed
    bound = min(min(bounds.values(), default=INFINITY), best.value)
    return Solution(
        best.evaluation,
        best.value,
        bound,
        "pairs",
        len(searches),
        watch.seconds,
        timed_out,
        one_core_per_model=len(problem.cores) > 1,
    )


def _by_more(problem: Problem, engines: Tuple[str, ...], bounds: Dict[Tuple[str, ...], float], limit: float) -> float:
    """What the bounds on more engines say of these, at most for what is below the limit.

    With a core of its own a model waits for nothing more, so that only the slowdown by more engines can make it longer.
    """
    bound, cores = 0.0, [d for d in engines if d != GPU]
    for other, of_other in bounds.items():
        if set(other) > set(engines):
            few, more = frozenset(engines), frozenset(other)
            slower = [1.0, problem.factor(more, GPU) / problem.factor(few, GPU)]
            if cores:
                slowest = max(problem.factor(more, d) for d in other if d != GPU)
                slower.append(slowest / min(problem.factor(few, d) for d in cores))
            bound = max(bound, min(of_other, limit) / max(slower))
    return bound


def _not_covered(problem: Problem, sets: Sequence[Tuple[str, ...]]) -> List[Tuple[str, ...]]:
    """The sets without those of which another holds all engines and slows none of them more, nor the GPU's reformats."""

    def covers(other: Tuple[str, ...], engines: Tuple[str, ...]) -> bool:
        return set(other) > set(engines) and all(
            problem.factor(frozenset(other), d) <= problem.factor(frozenset(engines), d) for d in {*engines, GPU}
        )

    return [s for s in sets if not any(covers(other, s) for other in sets)]
