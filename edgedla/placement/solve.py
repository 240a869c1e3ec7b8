"""The solver for an objective: HiGHS where it is installed, plain Python where not; schedules for the makespan."""

from __future__ import annotations

from typing import Iterable, Optional, Sequence, Tuple

from edgedla.placement import highs
from edgedla.placement.branch import solve_branching
from edgedla.placement.evaluate import Evaluation
from edgedla.placement.goal import GAP, Goal, Solution, Value
from edgedla.placement.milp import solve_milp
from edgedla.placement.problem import Problem
from edgedla.placement.schedule import shortest_schedule

SOLVERS = ("auto", "highs", "python")


def solve(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    time_limit_s: float = 10.0,
    solver: str = "auto",
    gap: float = GAP,
) -> Solution:
    """The best legal assignment with its proof, or the best found in time with its bound.

    Args:
        start: assignments to begin with; the answer is never worse than the best legal one of them.
        solver: "highs", "python", or "auto": HiGHS where highspy can be imported.
    """
    value_of: Optional[Value] = schedule_length if goal.objective == "makespan" else None
    if solver == "highs" or (solver == "auto" and highs.available()):
        return solve_milp(problem, goal, start, time_limit_s, gap, value_of)
    return solve_branching(problem, goal, start, time_limit_s, gap, value_of)


def schedule_length(problem: Problem, evaluation: Evaluation) -> Tuple[float, float]:
    """(length of the shortest schedule found, its bound): one frame of every model."""
    schedule = shortest_schedule(problem, evaluation)
    return schedule.length_us, schedule.bound_us
