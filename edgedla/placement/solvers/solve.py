"""Chooses the solver for an objective: HiGHS if installed, otherwise plain Python; schedules for the makespan."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Iterable, NamedTuple, Optional, Sequence, Tuple

from edgedla.placement.deadline import NEVER, Deadline, Stopwatch
from edgedla.placement.prediction.one_in_flight import OneInFlight
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, Goal, Solution, Value, legal, measure_of
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule import shortest_schedule
from edgedla.placement.solvers import highs
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.branch import solve_branching
from edgedla.placement.solvers.lower_bounds import alike, floor, floor_on
from edgedla.placement.solvers.milp import linear_bound, solve_milp

SOLVERS = ("auto", "highs", "python")

#: Most items for which a solver starts. Beyond, its model takes gigabytes, and HiGHS exceeds its time limit
#: (20,000 items: half a minute over 6 s). Real networks have a few thousand.
MOST_ITEMS = 10_000

#: Shares of the time limit for sweeps before HiGHS continues. Larger for the makespan of two models and for two streams
#: with one frame in flight, where HiGHS proves little. Smaller for the makespan of more models, where HiGHS sometimes
#: has better bounds.
SWEEPING, PAIRING, PACING, ROUNDS = 0.65, 0.97, 0.8, 0.5

#: Share for the linear program that shows whether HiGHS has a better bound than the sweeps; if not, the sweeps go on.
LINEAR = 0.05

#: Fewest seconds for which HiGHS starts: writing its program takes as long.
LEAST_S = 0.4


def solve(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    time_limit_s: float = 10.0,
    solver: str = "auto",
    gap: float = GAP,
    value_of: Optional[Value] = None,
    deadline: Optional[Deadline] = None,
) -> Solution:
    """The best legal assignment with its proof, or the best found within the time limit with its bound.

    Args:
        start: assignments to begin with; the answer is never worse than the best legal one of them.
        solver: "highs", "python", or "auto": HiGHS if highspy can be imported.
        deadline: the end of the search, in place of `time_limit_s`.
        value_of: true objective of an assignment, at least the goal's sums; a schedule's length for "makespan".
    """
    until = deadline or Deadline.after(time_limit_s)
    time_limit_s = max(until.left_s, 0.0)
    if goal.objective == "makespan" and value_of is None:
        value_of = schedule_length(until)
    if len(problem.items) > MOST_ITEMS:
        return first_core_first(problem, goal, _best_start(problem, goal, start, until, value_of), value_of)
    with_highs = solver == "highs" or (solver == "auto" and highs.available())
    several = _for_several(problem, goal)
    share = several.share if several else PACING if goal.one_in_flight else SWEEPING
    if not with_highs or (1 - share) * time_limit_s < LEAST_S:
        share = 1.0
    swept: Optional[Solution] = None
    if goal.objective == "throughput" and len(problem.devices) > 1 and value_of is None:
        from edgedla.placement.solvers.streams.solve_stream import solve_stream

        def rival(known: float) -> float:
            return linear_bound(problem, goal, known, until.within(LINEAR * time_limit_s))

        more_s = (1 - share) * time_limit_s
        swept = solve_stream(problem, goal, start, time_limit_s - more_s, gap, rival if more_s > 0 else None, more_s)
    elif several:
        swept = several.solve(problem, goal, start, time_limit_s * share, gap, value_of)
    elif isinstance(value_of, OneInFlight):
        from edgedla.placement.solvers.paces.solve_paces import can_solve as has_two_paces
        from edgedla.placement.solvers.paces.solve_paces import solve_paces

        if has_two_paces(problem, goal):
            swept = solve_paces(problem, goal, start, time_limit_s * share, value_of, gap)
    if swept is not None:
        start, time_limit_s = ([] if swept.best is None else [swept.best.assignment]), until.left_s
    late = time_limit_s <= 0 or (with_highs and time_limit_s < LEAST_S)
    if swept is not None and swept.bound >= swept.value * (1 - gap):
        solution = swept
    elif swept is not None and late and (swept.best is not None or time_limit_s <= 0):
        solution = replace(swept, timed_out=True)
    elif with_highs:
        solution = solve_milp(problem, goal, start, until, gap, value_of)
    else:
        solution = solve_branching(problem, goal, start, time_limit_s, gap, value_of)
    if swept is not None and solution is not swept:
        solution = replace(
            solution,
            bound=min(max(solution.bound, swept.bound), solution.value),
            one_core_per_model=swept.one_core_per_model and swept.bound > solution.bound,
            rounds=solution.rounds + swept.rounds,
            solve_time_s=solution.solve_time_s + swept.solve_time_s,
        )
    if solution.timed_out and solution.solver == "python":
        # The bounds of the other sets are not lower.
        solution = replace(solution, bound=max(solution.bound, min(floor(problem, goal), solution.value)))
    return first_core_first(problem, goal, solution, value_of)


class _Several(NamedTuple):
    """A search for the makespan of several models, and its share of the time limit."""

    solve: Callable[..., Solution]
    share: float


def _for_several(problem: Problem, goal: Goal) -> Optional[_Several]:
    """The search for these models; None if there is none."""
    if goal.objective != "makespan":
        return None
    from edgedla.placement.solvers.many.solve_many import can_solve as can_solve_many
    from edgedla.placement.solvers.many.solve_many import solve_many
    from edgedla.placement.solvers.several.solve_pair import can_solve, solve_pair

    if can_solve(problem, goal):
        return _Several(solve_pair, PAIRING)
    return _Several(solve_many, ROUNDS) if can_solve_many(problem, goal) else None


def _best_start(
    problem: Problem, goal: Goal, start: Iterable[Sequence[str]], deadline: Deadline, value_of: Optional[Value]
) -> Solution:
    """The best start assignment, with a bound that takes one pass over the items."""
    watch, best = Stopwatch(), Best(problem, goal, value_of)
    timed_out = best.offer_all(start, deadline)
    # Without mutual slowdown, all engines together are at least as fast as any subset, so this bounds every subset.
    bound, _ = floor_on(replace(problem, slowdown={}), goal, problem.devices)
    return Solution(
        best.evaluation, best.value, min(bound, best.value), "none", 0, watch.seconds, timed_out, too_large=True
    )


def first_core_first(problem: Problem, goal: Goal, answer: Solution, value_of: Optional[Value] = None) -> Solution:
    """Of two mirror images on equal cores, the one whose first DLA item is on the first core.

    Which one a solver finds first depends on the solver's release; the answer should not.
    """
    cores = problem.cores
    if answer.best is None or not alike(problem):
        return answer
    if next((d for d in answer.best.assignment if d in cores), cores[0]) == cores[0]:
        return answer
    swap = {cores[0]: cores[1], cores[1]: cores[0]}
    mirrored = evaluate(problem, [swap.get(d, d) for d in answer.best.assignment])
    value, _ = measure_of(goal, value_of)(problem, mirrored)
    same = legal(problem, mirrored, goal) and abs(value - answer.value) <= 1e-9 * answer.value
    return replace(answer, best=mirrored) if same else answer


def schedule_length(deadline: Deadline = NEVER) -> Value:
    """(length of the shortest schedule found until the deadline, its bound), for one frame of every model."""

    def length(problem: Problem, evaluation: Evaluation) -> Tuple[float, float]:
        schedule = shortest_schedule(problem, evaluation, deadline)
        return schedule.length_us, schedule.bound_us

    return length
