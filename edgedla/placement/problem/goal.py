"""What a solver is asked and what it answers: Goal, Solution, and when an assignment is legal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Tuple

from edgedla.placement.problem.evaluate import Evaluation, within_latency, worth
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.validate import limits_broken, wait_in_circle

INFINITY = float("inf")

#: Relative gap at which a placement counts as proven optimal.
GAP = 1e-4


@dataclass(frozen=True)
class Goal:
    """What is minimised: "latency", "throughput" (the period), "energy" or "makespan"; each under a latency bound if set."""

    objective: str
    latency_bound_us: Optional[float] = None


@dataclass(frozen=True)
class Solution:
    """The best legal assignment found and what is proven of it.

    Attributes:
        best: None where no assignment keeps the limits, or none was found in time.
        value: of the objective; infinity without one.
        bound: no legal assignment is below it.
        solver: who found it.
        rounds: how often the relaxation was solved.
        solve_time_s: wall time.
        timed_out: the search was stopped by the time limit.
    """

    best: Optional[Evaluation]
    value: float
    bound: float
    solver: str
    rounds: int
    solve_time_s: float
    timed_out: bool

    @property
    def gap(self) -> float:
        """(value - bound) / value; 0 is proven optimal."""
        if self.value == INFINITY:
            return INFINITY if self.bound < INFINITY else 0.0
        return max(self.value - self.bound, 0.0) / self.value if self.value > 0 else 0.0

    @property
    def optimal(self) -> bool:
        return self.gap <= 2 * GAP


#: (value reached, value that no schedule of the assignment is below), where `worth` alone does not tell (makespan).
Value = Callable[[Problem, Evaluation], Tuple[float, float]]


def measure_of(goal: Goal, value_of: Optional[Value]) -> Value:
    """`value_of`, or the worth under the goal, which is reached exactly."""

    def exact(problem: Problem, evaluation: Evaluation) -> Tuple[float, float]:
        value = worth(problem, evaluation, goal.objective)
        return value, value

    return value_of or exact


def legal(problem: Problem, evaluation: Evaluation, goal: Goal) -> bool:
    """Every limit is kept, the latency bound too, and the regions can run; the devices are among the allowed ones.

    The regions that TensorRT forms on one core never wait for each other in a circle, those of two cores may.
    """
    return (
        within_latency(problem, evaluation, goal.latency_bound_us)
        and not limits_broken(problem, evaluation.regions)
        and not (len({r.core for r in evaluation.regions}) > 1 and wait_in_circle(problem, evaluation.regions))
    )
