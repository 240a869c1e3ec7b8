"""Placements to begin with: contiguous, balanced stages in topological order, improved by moving cuts; and whole models."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from functools import lru_cache, partial
from itertools import accumulate
from typing import Dict, List, Optional, Sequence, Set, Tuple

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.baselines import after_cap, greedy
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import INFINITY, Goal, Value, legal, measure_of
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.fractional import alike, image
from edgedla.vocabulary import GPU


def staged(problem: Problem, order: Sequence[str], cuts: Sequence[int]) -> Tuple[str, ...]:
    """Puts each stage on its engine; items not allowed there go to their first allowed device."""
    ends = [*cuts, len(problem.items)]
    devices: List[str] = []
    stage = 0
    for i, item in enumerate(problem.items):
        while i >= ends[stage]:
            stage += 1
        devices.append(order[stage] if order[stage] in item.allowed else item.allowed[0])
    return tuple(devices)


def balanced_cuts(problem: Problem, order: Sequence[str]) -> Optional[Tuple[int, ...]]:
    """The cuts between the engines of an order of at least two, by sums of item times; None if they cannot be filled equally."""
    engines = frozenset(order)
    sums: Dict[str, List[float]] = {}
    for device in order:
        times = (
            rate * item.time_us(device) * problem.factor(engines, device) if device in item.allowed else 0.0
            for item, rate in ((i, problem.rates[i.model]) for i in problem.items)
        )
        sums[device] = [0.0, *accumulate(times)]
    low, high = 0.0, max(s[-1] for s in sums.values())
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _filled(order, sums, middle) is not None else (middle, high)
    return _filled(order, sums, high)


def _filled(order: Sequence[str], sums: Dict[str, List[float]], period_us: float) -> Optional[Tuple[int, ...]]:
    """The cuts with every engine but the last filled up to the period; None if the last engine exceeds it."""
    cuts: List[int] = []
    at = 0
    for device in order[:-1]:
        at = max(bisect_right(sums[device], sums[device][at] + period_us) - 1, at)
        cuts.append(at)
    rest = sums[order[-1]]
    return tuple(cuts) if rest[-1] - rest[at] <= period_us else None


class Looked:
    """Values of assignments, each worked out once, and once for both mirror images on equal cores; infinity for one that is not legal."""

    def __init__(self, problem: Problem, goal: Goal, value_of: Optional[Value]) -> None:
        self.problem, self._goal, self._measure = problem, goal, measure_of(goal, value_of)
        # A schedule is searched for: images may get different ones.
        self.cores = problem.cores if value_of is None and alike(problem) else ()
        self._values: Dict[Tuple[str, ...], float] = {}

    def value(self, assignment: Tuple[str, ...]) -> float:
        seen = image(assignment, self.cores)
        if seen not in self._values:
            e = evaluate(self.problem, seen)
            self._values[seen] = self._measure(self.problem, e)[0] if legal(self.problem, e, self._goal) else INFINITY
        return self._values[seen]


#: Budget of the search in evaluated items, about half a second. It is counted, not timed, so that the same input always
#: gives the same placement.
ITEMS_LOOKED_AT = 60_000


class Budget:
    """The number of assignments that may still be evaluated, and the deadline."""

    def __init__(self, problem: Problem, deadline: Deadline) -> None:
        self.left = ITEMS_LOOKED_AT // max(len(problem.items), 20)
        self.deadline = deadline

    def take(self) -> bool:
        self.left -= 1
        if self.deadline.passed:
            self.left = -1
        return self.left >= 0


#: So many placements are tried: of a stream of few layers, or of whole models.
FEW_PLACEMENTS = 81


def whole_model_starts(problem: Problem, deadline: Deadline = NEVER) -> List[Tuple[str, ...]]:
    """Assignments with one device per model, as far as its items are allowed there; stops at the deadline."""
    starts: List[Tuple[str, ...]] = []
    for way in itertools.islice(itertools.product(problem.devices, repeat=len(problem.models)), FEW_PLACEMENTS):
        if deadline.passed:
            break
        starts.append(after_cap(problem, greedy(problem, way)))
    return starts


#: From so many items on a search begins with stages: one look may take all of its time (branches of 1,000 layers: 10 s).
MANY_ITEMS = 400


def stage_starts(
    problem: Problem, goal: Goal, value_of: Optional[Value] = None, deadline: Deadline = NEVER
) -> List[Tuple[str, ...]]:
    """For each order of the engines, the best stages found by moving one cut at a time; best first.

    Items not allowed on their stage's device go to the GPU. Several models form one sequence.

    Args:
        deadline: returns the stages found by then, at least for one order of all engines.
    """
    looked, balanced = Looked(problem, goal, value_of), lru_cache(maxsize=None)(partial(balanced_cuts, problem))
    budget = Budget(problem, deadline)
    n = len(problem.items)
    best_by_order: List[Tuple[float, Tuple[str, ...]]] = []

    def value(order: Sequence[str], cuts: Sequence[int]) -> float:
        budget.take()
        return looked.value(staged(problem, order, cuts))

    if any(not item.allowed for item in problem.items) or GPU not in problem.devices:
        return []
    begun: List[Tuple[float, Tuple[str, ...], List[int]]] = []
    for size in range(len(problem.devices), 1, -1):
        for order in itertools.permutations(problem.devices, size):
            if begun and deadline.passed:
                break
            first = balanced(image(order, looked.cores)) or tuple(n * (k + 1) // size for k in range(size - 1))
            begun.append((value(order, first), order, list(first)))
    # The most promising order first, because the budget may not last for all.
    for best, order, cuts in sorted(begun):
        step = max(n // 16, 1)
        while step and budget.left > 0:
            moved = False
            for k in range(len(cuts)):
                for delta in (-step, step):
                    tried = [*cuts[:k], min(max(cuts[k] + delta, 0), n), *cuts[k + 1 :]]
                    if tried == sorted(tried) and tried != cuts:
                        v = value(order, tried)
                        if v < best * (1 - 1e-9):
                            best, cuts, moved = v, tried, True
            step = step if moved else step // 2
        if best < INFINITY:
            best_by_order.append((best, staged(problem, order, cuts)))
    ranked = [assignment for _, assignment in sorted(best_by_order)]
    return [polished(looked, a, Budget(problem, deadline)) for a in ranked[:2]] + ranked[2:]


def polished(looked: Looked, assignment: Tuple[str, ...], budget: Budget) -> Tuple[str, ...]:
    """The assignment after moving border items, one at a time, to a neighbour's device while that helps."""
    problem = looked.problem
    neighbours: List[Set[int]] = [set() for _ in problem.items]
    for flow in problem.flows:
        ends = {*flow.consumers, *(() if flow.producer is None else (flow.producer,))}
        for i in ends:
            neighbours[i] |= ends - {i}
    best, value = assignment, looked.value(assignment)
    moved = True
    while moved:
        moved = False
        for i, item in enumerate(problem.items):
            for device in sorted({best[n] for n in neighbours[i]} & set(item.allowed) - {best[i]}):
                if not budget.take():
                    return best
                tried = (*best[:i], device, *best[i + 1 :])
                v = looked.value(tried)
                if v < value * (1 - 1e-9):
                    best, value, moved = tried, v, True
    return best
