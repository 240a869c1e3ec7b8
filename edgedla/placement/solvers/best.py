"""The best assignment that a solver has found so far."""

from __future__ import annotations

from typing import Iterable, Optional, Sequence

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import INFINITY, Goal, Value, legal, measure_of
from edgedla.placement.problem.problem import Problem

#: Assignments evaluated even after the deadline: the baselines, which the answer is compared with, and the best start.
ALWAYS = 5

#: Complete placements that one search hands to another.
HANDED_OUT = 12


class Best:
    """The best legal assignment so far; on a tie the earliest stays."""

    def __init__(self, problem: Problem, goal: Goal, value_of: Optional[Value]) -> None:
        self.problem, self.goal = problem, goal
        self.measure = measure_of(goal, value_of)
        self.evaluation: Optional[Evaluation] = None
        self.value = INFINITY

    def offer(self, e: Evaluation) -> Optional[float]:
        """Keeps the assignment if it is better. Returns its proven value, or None if it is not legal."""
        if not legal(self.problem, e, self.goal):
            return None
        value, proven = self.measure(self.problem, e)
        if value < self.value * (1 - 1e-9):
            self.evaluation, self.value = e, value
        return proven

    def offer_all(self, assignments: Iterable[Sequence[str]], deadline: Deadline) -> bool:
        """Offers assignments until the deadline, but always the first `ALWAYS`, and more until one is legal.

        Returns True if some were left out.
        """
        for k, assignment in enumerate(assignments):
            if k >= ALWAYS and self.evaluation is not None and deadline.passed:
                return True
            self.offer(evaluate(self.problem, assignment))
        return False
