"""A start for pipelines: whole loadables, their halves, and stretches on the GPU move to another engine while that helps."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import Goal, legal
from edgedla.placement.problem.problem import Problem
from edgedla.vocabulary import GPU

#: The moves lower this norm of the engines' loads: the busiest engine decides, but one that becomes less busy counts too.
NORM = 8


def moved_regions(
    problem: Problem, goal: Goal, start: Sequence[str], deadline: Optional[Deadline] = None
) -> Tuple[str, ...]:
    """The assignment after the moves, first those that relieve the busiest engine; the start itself if none helps."""
    best = evaluate(problem, start)
    value = _norm(problem, best)
    moved = True
    while moved:
        moved = False
        loads = {d: best.load(problem, d).latency_us for d in problem.devices}
        for part in sorted(_parts(problem, best), key=lambda p: -loads[best.assignment[p[0]]]):
            for device in problem.devices:
                if deadline is not None and deadline.passed:
                    return best.assignment
                if moved or device == best.assignment[part[0]]:
                    continue
                devices = list(best.assignment)
                for i in part:
                    devices[i] = device if device in problem.items[i].allowed else devices[i]
                tried = evaluate(problem, devices)
                norm = _norm(problem, tried)
                if norm < value * (1 - 1e-4) and legal(problem, tried, goal):
                    best, value, moved = tried, norm, True
            if moved:
                break
    return best.assignment


def _norm(problem: Problem, evaluation: Evaluation) -> float:
    loads = [evaluation.load(problem, d).latency_us for d in problem.devices]
    most = max(loads) or 1.0
    return float(most * sum((load / most) ** NORM for load in loads) ** (1 / NORM))


def _parts(problem: Problem, evaluation: Evaluation) -> List[Tuple[int, ...]]:
    """Loadables, stretches on the GPU that may run elsewhere, and the halves of both."""
    groups = [region.items for region in evaluation.regions]
    stretch: List[int] = []
    for i, device in enumerate((*evaluation.assignment, "")):
        if device == GPU:
            stretch += [i] if len(problem.items[i].allowed) > 1 else []
        elif stretch:
            groups.append(tuple(stretch))
            stretch = []
    halves = [half for g in groups if len(g) > 1 for half in (g[: len(g) // 2], g[len(g) // 2 :])]
    return [*groups, *halves]
