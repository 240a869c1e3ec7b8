"""Exact placement in plain Python, for where highspy is missing: slower, the same answers, the same bounds on time-out."""

from __future__ import annotations

import heapq
import itertools
import time
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from edgedla.costs.cost import Cost
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, INFINITY, Goal, Solution, Value, legal, measure_of
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.mincut import cheapest
from edgedla.vocabulary import GPU


class Search:
    """The best legal assignment so far, and the clock."""

    def __init__(self, problem: Problem, goal: Goal, time_limit_s: float, value_of: Optional[Value]) -> None:
        self.problem, self.goal = problem, goal
        self.measure = measure_of(goal, value_of)
        self.best: Optional[Evaluation] = None
        self.value = INFINITY
        self.nodes = 0
        self.began = time.monotonic()
        self.deadline = self.began + time_limit_s

    def offer(self, assignment: Sequence[str]) -> Evaluation:
        e = evaluate(self.problem, assignment)
        if legal(self.problem, e, self.goal):
            value, _ = self.measure(self.problem, e)
            if value < self.value * (1 - 1e-9):
                self.best, self.value = e, value
        return e

    def solution(self, bound: float, timed_out: bool) -> Solution:
        bound = min(bound, self.value)
        return Solution(self.best, self.value, bound, "python", self.nodes, time.monotonic() - self.began, timed_out)


def solve_branching(
    problem: Problem,
    goal: Goal,
    start: Iterable[Sequence[str]] = (),
    time_limit_s: float = 10.0,
    gap: float = GAP,
    value_of: Optional[Value] = None,
) -> Solution:
    """As `milp.solve_milp`, without a library: branch and bound over minimum cuts where the problem is one, else depth first."""
    search = Search(problem, goal, time_limit_s, value_of)
    for assignment in start:
        search.offer(assignment)
    if goal.objective in ("latency", "energy") and goal.latency_bound_us is None and len(problem.cores) == 1:
        return _over_cuts(search, gap)
    return _depth_first(search, gap)


def _over_cuts(search: Search, gap: float) -> Solution:
    """Best first over fixed items; bound = minimum cut + one loadable + the call of each model's engine.

    Leaving further loadables out never overestimates. The assignment without any loadable is tried by itself first.
    """
    problem, core, weight = search.problem, search.problem.cores[0], search.goal.objective
    one = problem.loadable.latency_us if weight == "latency" else problem.loadable.energy_mj
    for _ in {item.model for item in problem.items if item.layers}:
        one += problem.engine.latency_us if weight == "latency" else problem.engine.energy_mj
    if all(GPU in item.allowed for item in problem.items):
        search.offer((GPU,) * len(problem.items))
    serial = itertools.count()
    # The GPU-only assignment stands on its own, so everything in the queue has a loadable.
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
        if time.monotonic() > search.deadline:
            return search.solution(bound, True)
        search.nodes += 1
        e = search.offer(assignment)
        free = [i for i, item in enumerate(problem.items) if i not in fixed and len(item.allowed) > 1]
        reached, _ = search.measure(problem, e)
        if not free or (reached <= bound * (1 + 1e-9) and legal(problem, e, search.goal)):
            continue
        # The smallest region is the likeliest to be wrong; with none left, any free item.
        small = min((r.items for r in e.regions), key=len, default=())
        item = next((i for i in small if i in set(free)), free[0])
        for device in (GPU, core):
            push({**fixed, item: device})
    return search.solution(search.value * (1 - gap), False)


def _depth_first(search: Search, gap: float) -> Solution:
    """Items in order, cheapest device first; the bound counts what is placed and the least of what is not."""
    problem, goal = search.problem, search.goal
    items = problem.items
    n, models = len(items), range(len(problem.models))
    least_us = [min(i.time_us(d) for d in i.allowed) if i.allowed else INFINITY for i in items]
    least_mj = [min(i.energy_mj(d) for d in i.allowed) if i.allowed else INFINITY for i in items]
    rest_us = {m: [0.0] * (n + 1) for m in models}
    rest_mj = [0.0] * (n + 1)
    for i in reversed(range(n)):
        for m in models:
            rest_us[m][i] = rest_us[m][i + 1] + (least_us[i] if items[i].model == m else 0.0)
        rest_mj[i] = rest_mj[i + 1] + least_mj[i]
    flows_into: Dict[Optional[int], List[int]] = {}
    for f, flow in enumerate(problem.flows):
        for c in flow.consumers:
            flows_into.setdefault(c, []).append(f)
    links = {c: [k for k in problem.links if k.consumer == c] for c in {k.consumer for k in problem.links}}
    devices: List[str] = []
    load: Dict[Tuple[int, str], float] = {}
    energy = [0.0]
    paid: Set[Tuple[int, str]] = set()

    def bound(i: int) -> float:
        serial = {m: sum(v for (at, _), v in load.items() if at == m) + rest_us[m][i] for m in models}
        limit = goal.latency_bound_us
        if limit is not None and any(v > limit * (1 + 1e-9) for v in serial.values()):
            return INFINITY
        if goal.objective == "latency":
            return sum(serial.values())
        if goal.objective == "energy":
            return energy[0] + rest_mj[i]
        rates = problem.rates if goal.objective == "throughput" else (1.0,) * len(models)
        busy = [sum(rates[m] * load.get((m, d), 0.0) for m in models) for d in problem.devices]
        shared = sum(rates[m] * serial[m] for m in models) / max(len(problem.devices), 1)
        longest = max([*busy, shared], default=0.0)
        return max([longest, *serial.values()]) if goal.objective == "makespan" else longest

    def charge(model: int, device: str, cost: Cost, undo: List[Tuple[int, str, float, float]]) -> None:
        load[model, device] = load.get((model, device), 0.0) + cost.latency_us
        energy[0] += cost.energy_mj
        undo.append((model, device, cost.latency_us, cost.energy_mj))

    def place(i: int, device: str) -> Tuple[List[Tuple[int, str, float, float]], List[Tuple[int, str]]]:
        undo: List[Tuple[int, str, float, float]] = []
        new: List[Tuple[int, str]] = []
        model = items[i].model
        charge(model, device, items[i].cost(device), undo)
        for f in flows_into.get(i, ()):
            flow = problem.flows[f]
            source = GPU if flow.producer is None else devices[flow.producer]
            if source != device and (f, device) not in paid:
                paid.add((f, device))
                new.append((f, device))
                charge(model, GPU if GPU in (source, device) else device, flow.cost(source, device), undo)
        for link in links.get(i, ()):
            if devices[link.producer] != device:
                charge(model, device, link.cost(device), undo)
        return undo, new

    root = bound(0)
    # An explicit stack: (item, devices still to try, what to undo).
    stack: List[Tuple[Iterable[str], List[Tuple[int, str, float, float]], List[Tuple[int, str]]]] = []

    def choices(i: int) -> Iterable[str]:
        return iter(sorted(items[i].allowed, key=lambda d: items[i].time_us(d)))

    def undo_last() -> None:
        _, undo, new = stack[-1]
        for model, device, us, mj in undo:
            load[model, device] -= us
            energy[0] -= mj
        paid.difference_update(new)
        del devices[len(stack) - 1 :]

    if n == 0:
        return search.solution(search.value * (1 - gap), False)
    stack.append((choices(0), [], []))
    while stack:
        if search.nodes % 256 == 0 and time.monotonic() > search.deadline:
            return search.solution(root, True)
        undo_last()
        device = next(iter(stack[-1][0]), None)
        if device is None:
            stack.pop()
            continue
        i = len(stack) - 1
        search.nodes += 1
        undo, new = place(i, device)
        stack[-1] = (stack[-1][0], undo, new)
        devices.append(device)
        # Sums and differences of floats leave dust behind; it must not prune the best.
        if bound(i + 1) >= search.value * (1 - gap) + 1e-9:
            continue
        if i + 1 == n:
            search.offer(tuple(devices))
        else:
            stack.append((choices(i + 1), [], []))
    return search.solution(search.value * (1 - gap), False)
