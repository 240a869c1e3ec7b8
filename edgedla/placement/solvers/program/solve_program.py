"""The placement as an integer program: HiGHS solves a relaxation, cuts are added, until the gap closes."""

from __future__ import annotations

from typing import Dict, Iterable, Mapping, Optional, Sequence, Set, Tuple

from edgedla.placement.deadline import NEVER, Deadline, Stopwatch
from edgedla.placement.problem.baselines import after_cap
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, SECOND_US, Goal, Solution, Value
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike, engine_sets, floor_on
from edgedla.placement.solvers.program.highs import Linear, add
from edgedla.placement.solvers.program.relaxation import Relaxation, relax, use_every_engine
from edgedla.vocabulary import GPU


def flips(r: Relaxation, model: int, core: str, members: Set[int]) -> Linear:
    """Number of a model's items that differ from the assignment with exactly `members` on the core."""
    result: Linear = {}
    for i in r.problem.items_of(model):
        on_core = r.on(i, core)
        if i in members:
            add(add(result, {None: 1.0}), on_core, -1.0)
        else:
            add(result, on_core)
    return result


def cut_count(r: Relaxation, evaluation: Evaluation) -> None:
    """count >= k - k * flips: TensorRT forms k loadables from exactly these items. Any flip disables the row."""
    for (m, core), count in r.count.items():
        members = {i for i in r.problem.items_of(m) if evaluation.assignment[i] == core}
        k = sum(region.core == core and region.model == m for region in evaluation.regions)
        if k > 1:
            r.model.at_least(add(add({count: 1.0}, {None: -float(k)}), flips(r, m, core, members), float(k)))


def cut_assignment(r: Relaxation, evaluation: Evaluation) -> None:
    """Forbids the present assignment of the cores: it breaks a limit that only the formed regions show."""
    difference: Linear = {}
    for m, core in r.count:
        members = {i for i in r.problem.items_of(m) if evaluation.assignment[i] == core}
        add(difference, flips(r, m, core, members))
    r.model.at_least(difference, 1.0)


def solve_program(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    deadline: Deadline = NEVER,
    gap: float = GAP,
    value_of: Optional[Value] = None,
) -> Solution:
    """The best legal assignment with a proof, or, when time runs out, the best found with its bound.

    The relaxation's value never exceeds the true value, so the bound is always valid. Each round adds the true value of
    the proposed assignment as a cut, so the search ends.

    Args:
        start: assignments to begin with (the baselines); on a tie the earliest wins.
        value_of: true objective of an assignment; `worth` by default.
    """
    watch = Stopwatch()
    best = Best(problem, goal, value_of)
    rounds, timed_out = 0, best.offer_all(start, deadline)
    bounds: Dict[Tuple[str, ...], float] = {}
    relaxed: Dict[Tuple[str, ...], Relaxation] = {}
    sets = engine_sets(problem, goal)
    for engines in sets:
        bounds[engines], _ = floor_on(problem, goal, engines)
        if deadline.passed and best.evaluation is not None:
            # No time left to write the program; the cheap bound remains.
            timed_out = True
            continue
        r = relaxed[engines] = relax(problem, engines)
        _objective(r, goal, best.value)
        if len(sets) > 1 and not deadline.passed:
            bounds[engines] = max(bounds[engines], r.model.continuous_bound(deadline))
    # The most promising set first: its solution may rule out the others.
    for engines in sorted(relaxed, key=lambda s: bounds[s]):
        r = relaxed[engines]
        seen: Set[Tuple[str, ...]] = set()
        while bounds[engines] < best.value * (1 - gap):
            if deadline.passed and rounds:
                timed_out = True
                break
            answer = r.model.solve(deadline, gap)
            rounds += 1
            if answer.status == "infeasible":
                bounds[engines] = INFINITY
                break
            bounds[engines] = max(bounds[engines], answer.bound)
            if answer.values:
                e = evaluate(problem, r.assignment(answer.values))
                if e.assignment in seen and bounds[engines] < best.value * (1 - gap):
                    break  # the same assignment again brings no new cut: the schedule search gave up, or rounding
                seen.add(e.assignment)
                proven = best.offer(e)
                if proven is None:
                    cut_assignment(r, e)
                    best.offer(evaluate(problem, after_cap(problem, e.assignment)))
                elif value_of is not None:
                    _cut_value(r, e, proven)
                cut_count(r, e)
            if answer.status == "time":
                timed_out = timed_out or bounds[engines] < best.value * (1 - gap)
                break
    bound = min(min(bounds.values(), default=INFINITY), best.value)
    return Solution(best.evaluation, best.value, bound, "highs", rounds, watch.seconds, timed_out)


def _objective(r: Relaxation, goal: Goal, known: float) -> None:
    problem, together = r.problem, frozenset(r.engines)
    latency: Dict[int, Linear] = {m: {} for m in range(len(problem.models))}
    for (m, _), expression in r.latency.items():
        add(latency[m], expression)
    _bounds(r, goal, latency)
    if alike(problem) and set(problem.cores) <= set(r.engines):
        # Breaks symmetry: of two mirror images, keeps the one with more work on the first core.
        work: Linear = {}
        for (_, device), expression in r.latency.items():
            add(work, expression, {problem.cores[0]: 1.0, problem.cores[1]: -1.0}.get(device, 0.0))
        r.model.at_least(work)
    offset = r.model.column(lower=1.0, upper=1.0)

    def constant_free(expression: Linear) -> Linear:
        return {offset if c is None else c: v for c, v in expression.items()}

    if goal.objective == "latency":
        for expression in latency.values():
            r.model.minimise(constant_free(expression))
        return
    if goal.objective in ("energy", "gpu-time"):
        spent = _gpu_time(r, goal)
        if goal.objective == "energy":
            spent = {}
            for m, expression in r.energy.items():
                add(spent, expression, goal.weight(m))
        r.model.minimise(constant_free(spent))
        r.model.at_most(spent, known)
        return
    use_every_engine(r)
    rates = problem.rates if goal.objective == "throughput" else (1.0,) * len(problem.models)
    # Excludes assignments that are no better than the best known.
    top = r.model.column(cost=1.0, upper=known)
    for device in r.devices:
        factor = problem.factor(together, device)
        load: Linear = {}
        for m in range(len(problem.models)):
            add(load, r.latency.get((m, device), {}), rates[m] * factor)
        r.model.at_least(add({top: 1.0}, load, -1.0))
    if goal.objective == "makespan" or goal.one_in_flight:
        for m in latency:
            serial: Linear = {}
            for device in r.devices:
                add(serial, r.latency.get((m, device), {}), rates[m] * problem.factor(together, device))
            r.model.at_least(add({top: 1.0}, serial, -1.0))


def _gpu_time(r: Relaxation, goal: Goal) -> Linear:
    """The GPU's time, weighted by frame rates."""
    spent: Linear = {}
    for m in range(len(r.problem.models)):
        add(spent, r.latency.get((m, GPU), {}), goal.weight(m))
    return spent


def _bounds(r: Relaxation, goal: Goal, latency: Mapping[int, Linear]) -> None:
    """The goal's bounds without the slowdown by other engines; cuts remove assignments that break them with it."""
    for m, expression in latency.items():
        bound = goal.bound_of(m)
        if bound is not None:
            r.model.at_most(expression, bound)
    if goal.total_latency_us is not None:
        everything: Linear = {}
        for expression in latency.values():
            add(everything, expression)
        r.model.at_most(everything, goal.total_latency_us)
    if goal.gpu_bound_us is not None:
        r.model.at_most(_gpu_time(r, goal), goal.gpu_bound_us * (1 + 1e-9))
    if goal.frames_per_second:
        for device in r.devices:
            work: Linear = {}
            for m, fps in enumerate(goal.frames_per_second):
                add(work, r.latency.get((m, device), {}), fps / SECOND_US)
            r.model.at_most(work, 1.0)


def _cut_value(r: Relaxation, evaluation: Evaluation, proven: float) -> None:
    """objective >= proven - proven * (items on other devices): the proven value of this one assignment."""
    objective: Linear = {c: v for c, v in enumerate(r.model.cost) if v}
    elsewhere: Linear = {}
    for i, device in enumerate(evaluation.assignment):
        add(add(elsewhere, {None: 1.0}), r.on(i, device), -1.0)
    r.model.at_least(add(add(objective, {None: -proven}), elsewhere, proven))
