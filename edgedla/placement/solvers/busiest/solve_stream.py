"""The throughput of a stream: wider and wider searches on each set of engines, until the bound meets the best placement."""

from __future__ import annotations

import itertools
from typing import Iterable, List, Sequence, Tuple

from edgedla.placement.deadline import NEVER, Deadline, Stopwatch
from edgedla.placement.problem.baselines import after_cap
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import engine_sets, floor_on
from edgedla.placement.solvers.busiest.engine_search import EngineSearch
from edgedla.placement.solvers.stages import MANY_ITEMS, Budget, Looked, polished
from edgedla.placement.solvers.states.item_order import narrow_order, reordered
from edgedla.vocabulary import GPU

#: Per look: (partial placements kept per item, states before one item). The first looks are narrow, to find good placements
#: soon: those prune most states. Each set of engines has the first look before the next set is tried at all: most others
#: cannot have a shorter period any more.
SIZES: Tuple[Tuple[int, int], ...] = ((500, 8_000), (1_000, 8_000), (4_000, 8_000), (16_000, 16_000), (64_000, 32_000))


class _Best(Best):
    """The best legal assignment offered so far; one that a cap on loadables forbids counts with the cap applied."""

    def __init__(self, problem: Problem, goal: Goal, gap: float, order: Sequence[int]) -> None:
        super().__init__(problem, goal, None)
        self.gap, self.order = gap, order

    @property
    def limit(self) -> float:
        """Values from here on are not worth searching."""
        return self.value * (1 - self.gap)

    def offer_ordered(self, assignments: Iterable[Sequence[str]]) -> None:
        """`offer_capped`, for assignments in the searches' order."""
        by_item = (dict(zip(self.order, assignment)) for assignment in assignments)
        self.offer_capped([devices[i] for i in range(len(devices))] for devices in by_item)

    def offer_capped(self, assignments: Iterable[Sequence[str]]) -> None:
        for assignment in assignments:
            if self.offer(evaluate(self.problem, assignment)) is None:
                self.offer(evaluate(self.problem, after_cap(self.problem, tuple(assignment))))


def solve_stream(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    deadline: Deadline = NEVER,
    gap: float = GAP,
    gpu_us: float = 0.0,
) -> Solution:
    """The shortest period, proven if the searches complete; otherwise the best placement found and a lower bound.

    The searches ignore caps, sizes, pools, and loadables that TensorRT splits by batch size. If such a limit binds, they do
    not complete. `gpu_us`: the GPU works at least so long per period.
    """
    watch = Stopwatch()
    order = narrow_order(problem, deadline.to_prepare)
    ordered = reordered(problem, order)
    best = _Best(problem, goal, gap, order)
    best.offer_capped(start)
    looked = Looked(problem, goal, None)
    floors = {engines: floor_on(problem, goal, engines) for engines in engine_sets(problem, goal)}
    bounds = {s: max(bound, gpu_us * problem.factor(frozenset(s), GPU)) for s, (bound, _) in floors.items()}
    searches: List[EngineSearch] = []
    rounds, timed_out = 0, False
    for engines in sorted(floors, key=lambda s: bounds[s]):
        timed_out = timed_out or deadline.passed
        if timed_out or bounds[engines] >= best.limit:
            continue
        search = EngineSearch(ordered, goal, engines, bounds[engines], floors[engines][1], deadline)
        if search.bound < best.limit:
            search.prepare()
            if len(problem.items) <= MANY_ITEMS:
                best.offer_ordered(search.begun())
            for assignments in search.first_looks(best.limit):
                best.offer_ordered(assignments)
                if assignments and best.evaluation is not None and search.bound < best.limit:
                    budget = Budget(problem, deadline.to_prepare)
                    best.offer_capped([polished(looked, best.evaluation.assignment, budget)])
                if search.bound >= best.limit or search.stopped:
                    break
            if search.bound < best.limit and not search.stopped:
                best.offer_ordered(search.look(best.limit, *SIZES[0]))
                rounds += 1
        bounds[engines] = search.bound
        searches.append(search)
    for sweep, (width, most_states) in enumerate(itertools.chain(SIZES[1:], itertools.repeat(SIZES[-1])), 1):
        before, again = (best.value, dict(bounds)), sweep >= len(SIZES)
        for search in sorted(searches, key=lambda s: (s.bound, s.engines)):
            # A guided look ends with each placement it finds and continues from there; other looks would only repeat themselves.
            if timed_out or search.complete or search.bound >= best.limit or (again and not search.guided):
                continue
            best.offer_ordered(search.look(best.limit, width, most_states))
            rounds += 1
            bounds[search.engines] = search.bound
            timed_out = search.stopped
        if timed_out or (again and before == (best.value, bounds)):
            break
    bound = min(min(bounds.values(), default=INFINITY), best.value)
    return Solution(best.evaluation, best.value, bound, "sweep", rounds, watch.seconds, timed_out)
