"""Which search solves which goal. HiGHS has what the search for a goal leaves open, and the goals that have none."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Iterable, List, Optional, Sequence, Tuple

from edgedla.placement.deadline import NEVER, Deadline, Stopwatch
from edgedla.placement.prediction.one_in_flight import OneInFlight
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, Goal, Solution, Value, legal, measure_of
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule import shortest_schedule
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike, floor_on, image
from edgedla.placement.solvers.program.solve_program import solve_program
from edgedla.placement.solvers.stages import FEW_PLACEMENTS
from edgedla.placement.solvers.states.item_order import part_of
from edgedla.vocabulary import GPU

#: Most items for which a solver starts. Beyond, its model takes gigabytes, and HiGHS exceeds its time limit
#: (20,000 items: half a minute over 6 s). Real networks have a few thousand.
MOST_ITEMS = 10_000

#: Fewest seconds for which HiGHS starts after another search: writing its program takes as long.
LEAST_S = 0.4


def solve(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    time_limit_s: float = 10.0,
    gap: float = GAP,
    value_of: Optional[Value] = None,
    deadline: Optional[Deadline] = None,
) -> Solution:
    """The best legal assignment with its proof, or the best found within the time limit with its bound.

    Args:
        start: assignments to begin with; the answer is never worse than the best legal one of them.
        deadline: the end of the search, in place of `time_limit_s`.
        value_of: true objective of an assignment, at least the goal's sums; a schedule's length for "makespan".
    """
    until = deadline or Deadline.after(time_limit_s)
    if goal.objective == "makespan" and value_of is None:
        value_of = schedule_length(until)
    if len(problem.items) > MOST_ITEMS:
        return first_core_first(problem, goal, _best_start(problem, goal, start, until, value_of), value_of)
    found = _searched(problem, goal, [tuple(a) for a in start], until, gap, value_of)
    if found is None:
        solution = solve_program(problem, goal, start, until, gap, value_of)
    elif found.bound >= found.value * (1 - gap):
        solution = found
    elif until.left_s < LEAST_S and (found.best is not None or until.passed):
        solution = replace(found, timed_out=True)
    else:
        solution = _continued(problem, goal, found, until, gap, value_of)
    if goal.objective == "gpu-time" and solution.best is not None:
        solution = _shortest_of_equals(problem, goal, solution, until, gap)
    return first_core_first(problem, goal, solution, value_of)


def _searched(
    problem: Problem, goal: Goal, start: List[Tuple[str, ...]], until: Deadline, gap: float, value_of: Optional[Value]
) -> Optional[Solution]:
    """The answer of the goal's own search; None if it has none, as for GPU time, and for latency and energy of more than a few layers."""
    few = value_of is None and math.prod(len(item.allowed) for item in problem.items) <= FEW_PLACEMENTS
    if few and goal.objective in ("latency", "energy", "throughput"):
        return _all_tried(problem, goal, start)
    if goal.objective == "throughput" and len(problem.devices) > 1 and value_of is None:
        from edgedla.placement.solvers.busiest.solve_stream import solve_stream

        bounded = goal.is_bounded and GPU in problem.devices
        gpu_us, within = least_on_gpu(problem, goal, until, gap) if bounded else (0.0, [])
        return solve_stream(problem, goal, [*start, *within], until, gap, gpu_us)
    if isinstance(value_of, OneInFlight):
        from edgedla.placement.solvers.one_in_flight.solve_paces import can_solve as has_two_paces
        from edgedla.placement.solvers.one_in_flight.solve_paces import solve_paces

        return solve_paces(problem, goal, start, until, value_of, gap) if has_two_paces(problem, goal) else None
    if goal.objective != "makespan" or value_of is None:
        return None
    from edgedla.placement.solvers.more_models.solve_many import can_solve as has_more_models
    from edgedla.placement.solvers.more_models.solve_many import solve_many
    from edgedla.placement.solvers.two_models.solve_pair import can_solve as has_two_models
    from edgedla.placement.solvers.two_models.solve_pair import solve_pair

    if has_two_models(problem, goal):
        return solve_pair(problem, goal, start, until, gap, value_of)
    if has_more_models(problem):
        # HiGHS, which gets the other half, sometimes has the better bound.
        return solve_many(problem, goal, start, until.part(1 / 2), gap, value_of)
    return None


def least_on_gpu(problem: Problem, goal: Goal, until: Deadline, gap: float) -> Tuple[float, List[Tuple[str, ...]]]:
    """The least time of the GPU per period with every frame within its bound, and a placement with it: each model for itself.

    Tight bounds leave most of the work to the GPU, and then this is the shortest period. `solve_stream` knows only the sum of the bounds.
    """
    least_us, devices, cores = 0.0, [item.allowed[0] for item in problem.items], problem.cores if alike(problem) else ()
    for m, rate in enumerate(problem.rates):
        alone, members = part_of(problem, (m,))
        own = replace(goal, objective="gpu-time", latency_bound_us=goal.bound_of(m))
        found = solve(on_one_core(alone), own, gap=gap, deadline=until.part(1 / (len(problem.models) - m + 1)))
        least_us += rate * found.bound
        for i, device in zip(members, found.best.assignment if found.best else ()):
            # Models use the cores in turn.
            devices[i] = cores[m % len(cores)] if device in cores else device
    return least_us, [tuple(devices)]


def on_one_core(problem: Problem) -> Problem:
    """The problem of one model on one of two equal cores, which does the work of both with no more loadables and transitions."""
    if not alike(problem) or len({item.batch for item in problem.items if item.layers}) > 1:
        return problem
    devices, own = (GPU, problem.cores[0]), problem.limits
    items = tuple(replace(item, allowed=tuple(d for d in item.allowed if d in devices)) for item in problem.items)
    limits = replace(own, loadables_per_core=2 * own.loadables_per_core, global_dram_bytes=2 * own.global_dram_bytes)
    return replace(problem, devices=devices, items=items, limits=replace(limits, min_region_layers=0))


def _shortest_of_equals(problem: Problem, goal: Goal, least: Solution, until: Deadline, gap: float) -> Solution:
    """Of the placements with the least GPU time, the one with the shortest frame: what runs on a core adds nothing to the
    sum, so cores and detours between them would be left to chance."""
    assert least.best is not None
    same = replace(goal, objective="latency", gpu_bound_us=least.value)
    shortest = solve_program(problem, same, [least.best.assignment], until, gap)
    seconds = least.solve_time_s + shortest.solve_time_s
    return replace(least, best=shortest.best, rounds=least.rounds + shortest.rounds, solve_time_s=seconds)


def _all_tried(problem: Problem, goal: Goal, start: List[Tuple[str, ...]]) -> Solution:
    """The best of all placements, so that a network of a few layers loads no numpy."""
    watch, best = Stopwatch(), Best(problem, goal, None)
    best.offer_all([*start, *itertools.product(*(item.allowed for item in problem.items))], NEVER)
    return Solution(best.evaluation, best.value, best.value, "all", 0, watch.seconds, False)


def _continued(problem: Problem, goal: Goal, found: Solution, until: Deadline, gap: float, value_of: Optional[Value]) -> Solution:
    """HiGHS's answer, begun with what a search has found, and the better bound of both."""
    start = [] if found.best is None else [found.best.assignment]
    solution = solve_program(problem, goal, start, until, gap, value_of)
    return replace(
        solution,
        bound=min(max(solution.bound, found.bound), solution.value),
        one_core_per_model=found.one_core_per_model and found.bound > solution.bound,
        rounds=solution.rounds + found.rounds,
        solve_time_s=solution.solve_time_s + found.solve_time_s,
    )


def _best_start(
    problem: Problem, goal: Goal, start: Iterable[Sequence[str]], deadline: Deadline, value_of: Optional[Value]
) -> Solution:
    """The best start assignment, with a bound that takes one pass over the items."""
    watch, best = Stopwatch(), Best(problem, goal, value_of)
    timed_out = best.offer_all(start, deadline)
    # Without mutual slowdown, all engines together are at least as fast as any subset, so this bounds every subset.
    bound, _ = floor_on(replace(problem, slowdown={}), goal, problem.devices)
    return Solution(best.evaluation, best.value, min(bound, best.value), "none", 0, watch.seconds, timed_out, too_large=True)


def first_core_first(problem: Problem, goal: Goal, answer: Solution, value_of: Optional[Value] = None) -> Solution:
    """Of two mirror images on equal cores, the one whose first DLA item is on the first core.

    Which one a solver finds first depends on the solver's release; the answer should not.
    """
    if answer.best is None or not alike(problem):
        return answer
    mirrored = evaluate(problem, image(answer.best.assignment, problem.cores))
    value, _ = measure_of(goal, value_of)(problem, mirrored)
    same = legal(problem, mirrored, goal) and abs(value - answer.value) <= 1e-9 * answer.value
    return replace(answer, best=mirrored) if same else answer


def schedule_length(deadline: Deadline = NEVER) -> Value:
    """(length of the shortest schedule found until the deadline, its bound), for one frame of every model."""

    def length(problem: Problem, evaluation: Evaluation) -> Tuple[float, float]:
        schedule = shortest_schedule(problem, evaluation, deadline)
        return schedule.length_us, schedule.bound_us

    return length
