"""Exact placement in plain Python, used without highspy: slower, but with the same answers and valid bounds."""

from __future__ import annotations

import heapq
import itertools
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from edgedla.costs.cost import Cost
from edgedla.placement.deadline import Deadline, Stopwatch
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution, Value, legal
from edgedla.placement.problem.problem import Link, Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.mincut import cheapest
from edgedla.vocabulary import GPU


class Search(Best):
    """The best legal assignment so far, the nodes visited, and the clock."""

    def __init__(self, problem: Problem, goal: Goal, time_limit_s: float, value_of: Optional[Value]) -> None:
        super().__init__(problem, goal, value_of)
        self.nodes = 0
        self.watch = Stopwatch()
        self.deadline = Deadline.after(time_limit_s)

    def visit(self, assignment: Sequence[str]) -> Evaluation:
        e = evaluate(self.problem, assignment)
        self.offer(e)
        return e

    def solution(self, bound: float, timed_out: bool) -> Solution:
        bound = min(bound, self.value)
        return Solution(self.evaluation, self.value, bound, "python", self.nodes, self.watch.seconds, timed_out)


def solve_branching(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    time_limit_s: float = 10.0,
    gap: float = GAP,
    value_of: Optional[Value] = None,
) -> Solution:
    """As `milp.solve_milp`, without a library: branch and bound over minimum cuts if possible, else depth first."""
    search = Search(problem, goal, time_limit_s, value_of)
    search.offer_all(start, search.deadline)
    if goal.objective in ("latency", "energy") and not goal.is_bounded and len(problem.cores) == 1:
        return _over_cuts(search, gap)
    return _depth_first(search, gap)


def _over_cuts(search: Search, gap: float) -> Solution:
    """Best-first search over fixed items; bound = minimum cut + one loadable + the call of each model's engine.

    The bound ignores further loadables, so it never overestimates. The assignment without a loadable is tried first.
    """
    problem, core, weight = search.problem, search.problem.cores[0], search.goal.objective
    one = problem.loadable.latency_us if weight == "latency" else problem.loadable.energy_mj
    for _ in {item.model for item in problem.items if item.layers}:
        one += problem.engine.latency_us if weight == "latency" else problem.engine.energy_mj
    if all(GPU in item.allowed for item in problem.items):
        search.visit((GPU,) * len(problem.items))
    serial = itertools.count()
    # The GPU-only assignment was tried above, so every assignment in the queue has a loadable.
    queue: List[Tuple[float, int, Dict[int, str], Tuple[str, ...]]] = []

    def push(fixed: Dict[int, str]) -> None:
        value, assignment = cheapest(problem, core, weight, fixed)
        if value + one < search.value * (1 - gap) and value < 1e14:
            heapq.heappush(queue, (value + one, next(serial), fixed, assignment))

    push({})
    while queue:
        bound, _, fixed, assignment = heapq.heappop(queue)
        if bound >= search.value * (1 - gap):
            return search.solution(bound, False)
        if search.deadline.passed:
            return search.solution(bound, True)
        search.nodes += 1
        e = search.visit(assignment)
        free = [i for i, item in enumerate(problem.items) if i not in fixed and len(item.allowed) > 1]
        reached, _ = search.measure(problem, e)
        if not free or (reached <= bound * (1 + 1e-9) and legal(problem, e, search.goal)):
            continue
        # Branches on the smallest region, the most likely to be wrong; if all are fixed, on any free item.
        small = min((r.items for r in e.regions), key=len, default=())
        item = next((i for i in small if i in set(free)), free[0])
        for device in (GPU, core):
            push({**fixed, item: device})
    return search.solution(search.value * (1 - gap), False)


def _depth_first(search: Search, gap: float) -> Solution:
    """Depth-first search in item order, cheapest device first. Bound: cost of placed items + minimum of the others."""
    sums = _Sums(search.problem, search.goal)
    items = search.problem.items
    root = sums.bound()
    if not items:
        return search.solution(search.value * (1 - gap), False)

    def choices(i: int) -> Iterator[str]:
        return iter(sorted(items[i].allowed, key=lambda d: items[i].time_us(d)))

    # An explicit stack, one entry per item: the devices still to try, and the step to undo before the next one.
    stack: List[Tuple[Iterator[str], Optional[_Step]]] = [(choices(0), None)]
    while stack:
        if search.nodes % 256 == 0 and search.deadline.passed:
            return search.solution(root, True)
        untried, step = stack[-1]
        if step is not None:
            sums.take_back(step)
            stack[-1] = (untried, None)
        device = next(untried, None)
        if device is None:
            stack.pop()
            continue
        search.nodes += 1
        stack[-1] = (untried, sums.place(device))
        # Sums and differences of floats leave rounding errors, which must not prune the optimum.
        if sums.bound() >= search.value * (1 - gap) + 1e-9:
            continue
        if len(stack) == len(items):
            search.visit(tuple(sums.devices))
        else:
            stack.append((choices(len(stack)), None))
    return search.solution(search.value * (1 - gap), False)


class _Step(NamedTuple):
    """The cost that one placed item added: (model, device, us, mj) per charge, and the transitions it paid first."""

    charges: List[Tuple[int, str, float, float]]
    paid: List[Tuple[int, str]]


class _Sums:
    """Times and energy, weighted as in the goal, of the items placed so far, and a minimum for the rest."""

    def __init__(self, problem: Problem, goal: Goal) -> None:
        self.problem, self.goal = problem, goal
        self.models = range(len(problem.models))
        self.devices: List[str] = []
        self.load: Dict[Tuple[int, str], float] = {}
        self.energy = 0.0
        self.paid: Set[Tuple[int, str]] = set()
        self.rest_us, self.rest_mj = self._rest()
        self.flows_into: Dict[int, List[int]] = {}
        for f, flow in enumerate(problem.flows):
            for consumer in flow.consumers:
                self.flows_into.setdefault(consumer, []).append(f)
        self.links: Dict[int, List[Link]] = {}
        for link in problem.links:
            self.links.setdefault(link.consumer, []).append(link)

    def _rest(self) -> Tuple[Dict[int, List[float]], List[float]]:
        """By item index: the minimum time per model, and the minimum energy, of that item and all after it."""
        items = self.problem.items
        rest_us = {m: [0.0] * (len(items) + 1) for m in self.models}
        rest_mj = [0.0] * (len(items) + 1)
        for i in reversed(range(len(items))):
            allowed = items[i].allowed
            for m in self.models:
                rest_us[m][i] = rest_us[m][i + 1]
            rest_us[items[i].model][i] += min((items[i].time_us(d) for d in allowed), default=INFINITY)
            least_mj = min((items[i].energy_mj(d) for d in allowed), default=INFINITY)
            rest_mj[i] = rest_mj[i + 1] + least_mj * self.goal.energy_weight(items[i].model)
        return rest_us, rest_mj

    def bound(self) -> float:
        """A lower bound of all completions of the placed items; infinity if the latency bound is already exceeded."""
        i, goal, models = len(self.devices), self.goal, self.models
        serial = {m: sum(v for (at, _), v in self.load.items() if at == m) + self.rest_us[m][i] for m in models}
        for m, time_us in serial.items():
            limit = goal.bound_of(m)
            if limit is not None and time_us > limit * (1 + 1e-9):
                return INFINITY
        if goal.total_latency_us is not None and sum(serial.values()) > goal.total_latency_us * (1 + 1e-9):
            return INFINITY
        if goal.objective == "latency":
            return sum(serial.values())
        if goal.objective == "energy":
            return self.energy + self.rest_mj[i]
        rates = self.problem.rates if goal.objective == "throughput" else (1.0,) * len(models)
        engines = self.problem.devices
        busy = [sum(rates[m] * self.load.get((m, d), 0.0) for m in models) for d in engines]
        shared = sum(rates[m] * serial[m] for m in models) / max(len(engines), 1)
        longest = max([*busy, shared], default=0.0)
        if goal.objective == "makespan" or goal.one_in_flight:
            longest = max([longest, *(rates[m] * serial[m] for m in models)])
        return longest

    def place(self, device: str) -> _Step:
        """Puts the next item on a device, with the transitions and separations that this pays."""
        i = len(self.devices)
        item = self.problem.items[i]
        step = _Step([], [])
        self._charge(step, item.model, device, item.cost(device))
        for f in self.flows_into.get(i, ()):
            flow = self.problem.flows[f]
            source = GPU if flow.producer is None else self.devices[flow.producer]
            if source != device and (f, device) not in self.paid:
                self.paid.add((f, device))
                step.paid.append((f, device))
                self._charge(step, item.model, GPU if GPU in (source, device) else device, flow.cost(source, device))
        for link in self.links.get(i, ()):
            if self.devices[link.producer] != device:
                self._charge(step, item.model, device, link.cost(device))
        self.devices.append(device)
        return step

    def _charge(self, step: _Step, model: int, device: str, cost: Cost) -> None:
        self.load[model, device] = self.load.get((model, device), 0.0) + cost.latency_us
        self.energy += cost.energy_mj * self.goal.energy_weight(model)
        step.charges.append((model, device, cost.latency_us, cost.energy_mj))

    def take_back(self, step: _Step) -> None:
        """Undoes the last `place`; later items must be undone first."""
        for model, device, us, mj in step.charges:
            self.load[model, device] -= us
            self.energy -= mj * self.goal.energy_weight(model)
        self.paid.difference_update(step.paid)
        self.devices.pop()
