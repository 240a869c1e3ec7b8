"""Independent sums and limits of a placement problem, from its fields alone, to verify solvers with.

Nothing here calls `evaluate`, `legal` or `Problem.factor`, so that a fault in one of them shows as a difference.
"""

from __future__ import annotations

import itertools
from typing import Dict, List, Optional, Sequence, Set, Tuple

from edgedla.placement.problem.problem import Problem

Loads = Dict[Tuple[int, str], List[float]]


def kind(device: str) -> str:
    return "GPU" if device == "GPU" else "DLA"


def loads_of(problem: Problem, devices: Sequence[str]) -> Loads:
    """[microseconds, millijoules] by (model, device)."""
    loads: Loads = {}

    def add(model: int, device: str, cost: object) -> None:
        at = loads.setdefault((model, device), [0.0, 0.0])
        at[0] += cost.latency_us  # type: ignore[attr-defined]
        at[1] += cost.energy_mj  # type: ignore[attr-defined]

    for item, device in zip(problem.items, devices):
        add(item.model, device, item.costs.get(device, item.costs.get(kind(device))))
    for model in range(len(problem.models)):
        own = [(i, d) for i, d in zip(problem.items, devices) if i.model == model and i.layers]
        if own:
            add(model, "GPU" if "GPU" in [d for _, d in own] else own[-1][1], problem.engine)
    for core, group in problem.regions(devices):
        add(problem.items[group[0]].model, core, problem.loadable)
    for flow in problem.flows:
        source = "GPU" if flow.producer is None else devices[flow.producer]
        targets = {devices[c] for c in flow.consumers} | ({"GPU"} if flow.is_output else set())
        for target in targets - {source}:
            add(flow.model, "GPU" if "GPU" in (source, target) else target, flow.costs[kind(source), kind(target)])
    for link in problem.links:
        if devices[link.producer] != devices[link.consumer]:
            device = devices[link.consumer]
            add(problem.items[link.consumer].model, device, link.costs.get(device, link.costs.get(kind(device))))
    return loads


def value_of(problem: Problem, devices: Sequence[str], objective: str, fps: Sequence[float] = ()) -> float:
    """Latency, energy or GPU time of one frame of every model, watts above idle or GPU us per second at `fps`, or a period of a stream."""
    loads = loads_of(problem, devices)
    if objective == "gpu-time":
        return sum(us * (fps[m] if fps else 1.0) for (m, device), (us, _) in loads.items() if device == "GPU")
    if fps:
        return sum(mj * fps[m] for (m, _), (_, mj) in loads.items()) / 1000.0
    if objective == "latency":
        return sum(us for us, _ in loads.values())
    if objective == "energy":
        return sum(mj for _, mj in loads.values())
    return busiest(problem, devices, problem.rates)


def busiest(problem: Problem, devices: Sequence[str], rates: Sequence[float]) -> float:
    """Work of the busiest device for `rates` frames of each model, slowed down by the others in use."""
    loads = loads_of(problem, devices)
    used = frozenset(d for i, d in zip(problem.items, devices) if i.layers)
    longest = 0.0
    for device in dict.fromkeys((*problem.devices, "GPU")):
        factor = problem.slowdown[used][device] if len(used) > 1 and device in problem.slowdown.get(used, {}) else 1.0
        work = sum(us * rates[m] for (m, d), (us, _) in loads.items() if d == device)
        longest = max(longest, work * factor)
    return longest


def is_legal(
    problem: Problem, devices: Sequence[str], latency_bound_us: Optional[float] = None, fps: Sequence[float] = ()
) -> bool:
    limits, items = problem.limits, problem.items
    if fps and busiest(problem, devices, fps) > 1e6 * (1 + 1e-9):
        return False
    regions = problem.regions(devices)
    by_core: Dict[str, int] = {}
    for core, group in regions:
        by_core[core] = by_core.get(core, 0) + 1
        if sum(items[i].units for i in group) < limits.min_region_layers:
            return False
        if sum(items[i].weight_bytes for i in group) > limits.global_dram_bytes:
            return False
        if max(items[i].activation_bytes for i in group) > limits.local_dram_bytes:
            return False
    if any(n > limits.loadables_per_core for n in by_core.values()):
        return False
    if limits.max_regions is not None and len(regions) > limits.max_regions:
        return False
    if latency_bound_us is not None:
        loads = loads_of(problem, devices)
        for m in range(len(problem.models)):
            if sum(us for (at, _), (us, _) in loads.items() if at == m) > latency_bound_us * (1 + 1e-9):
                return False
    return not waits_in_a_circle(problem, [set(group) for _, group in regions])


def waits_in_a_circle(problem: Problem, groups: Sequence[Set[int]]) -> bool:
    """Whether loadables, each run as one piece, wait for each other: a walk from each over all that waits for it."""
    group_of = {i: n for n, group in enumerate(groups) for i in group}

    def node(i: int) -> Tuple[str, int]:
        return ("group", group_of[i]) if i in group_of else ("item", i)

    after: Dict[Tuple[str, int], Set[Tuple[str, int]]] = {}
    for i in range(len(problem.items)):
        for p in problem.predecessors(i):
            if node(p) != node(i):
                after.setdefault(node(p), set()).add(node(i))
    for start in list(after):
        reached, pending = set(), list(after[start])
        while pending:
            at = pending.pop()
            if at == start:
                return True
            if at not in reached:
                reached.add(at)
                pending += after.get(at, ())
    return False


def frame_of(problem: Problem, devices: Sequence[str], model: int) -> List[Tuple[str, float]]:
    """[device, microseconds] of one frame of a model in the order in which it runs; GPU work without a break is one."""
    own = [i for i, item in enumerate(problem.items) if item.model == model]
    groups = [set(g) for _, g in problem.regions(devices) if problem.items[g[0]].model == model]
    groups += [{i} for i in own if devices[i] == "GPU"]
    rest, order, now = list(groups), [], ""
    while rest:
        done = set().union(*order)
        ready = [g for g in rest if all(p in done | g for i in g for p in problem.predecessors(i))]
        group = min(ready, key=lambda g: (devices[min(g)] != now, min(g)))
        now = devices[min(group)]
        order.append(group)
        rest.remove(group)
    place = {i: k for k, g in enumerate(order) for i in g}
    work = [0.0] * len(order)
    before = [0.0] * len(order)
    after = 0.0
    for i in own:
        work[place[i]] += problem.items[i].costs.get(devices[i], problem.items[i].costs.get(kind(devices[i]))).latency_us  # type: ignore[union-attr]
    for k, group in enumerate(order):
        work[k] += problem.loadable.latency_us if devices[min(group)] != "GPU" else 0.0
    layered = [i for i in own if problem.items[i].layers]
    if layered:
        on_gpu = [place[i] for i in layered if devices[i] == "GPU"]
        work[min(on_gpu) if on_gpu else place[layered[-1]]] += problem.engine.latency_us
    for flow in problem.flows:
        source = "GPU" if flow.producer is None else devices[flow.producer]
        if flow.model != model:
            continue
        for target in ({devices[c] for c in flow.consumers} | ({"GPU"} if flow.is_output else set())) - {source}:
            us = flow.costs[kind(source), kind(target)].latency_us
            readers = [place[c] for c in flow.consumers if devices[c] == target]
            if not readers:
                after += us
            elif source == "GPU":
                before[min(readers)] += us
            else:
                work[min(readers)] += us
    for link in problem.links:
        device = devices[link.consumer]
        if problem.items[link.consumer].model == model and devices[link.producer] != device:
            work[place[link.consumer]] += link.costs.get(device, link.costs.get(kind(device))).latency_us  # type: ignore[union-attr]
    frame: List[Tuple[str, float]] = []
    for k, group in enumerate(order):
        frame += [("GPU", before[k])] if before[k] else []
        frame.append((devices[min(group)], work[k]))
    frame += [("GPU", after)] if after else []
    for k in reversed(range(1, len(frame))):
        if frame[k][0] == frame[k - 1][0] == "GPU":
            frame[k - 1 : k + 1] = [("GPU", frame[k - 1][1] + frame[k][1])]
    return frame


def makespan(problem: Problem, devices: Sequence[str], below: float = float("inf")) -> float:
    """The shortest schedule of one frame of every model, over all orders on each device; `below` if none is shorter."""
    used = frozenset(d for i, d in zip(problem.items, devices) if i.layers)
    factors = problem.slowdown.get(used, {}) if len(used) > 1 else {}
    jobs = [[(d, us * factors.get(d, 1.0)) for d, us in frame_of(problem, devices, m)] for m in range(len(problem.models))]
    best = below

    def go_on(done: List[int], ends: List[float], free: Dict[str, float]) -> None:
        nonlocal best
        left = [sum(us for _, us in job[k:]) for job, k in zip(jobs, done)]
        if max(end + rest for end, rest in zip(ends, left)) >= best:
            return
        if not any(left) and all(k == len(job) for job, k in zip(jobs, done)):
            best = max(ends)
            return
        for m, job in enumerate(jobs):
            if done[m] < len(job):
                device, us = job[done[m]]
                end = max(ends[m], free.get(device, 0.0)) + us
                go_on(
                    [k + (n == m) for n, k in enumerate(done)],
                    [end if n == m else e for n, e in enumerate(ends)],
                    {**free, device: end},
                )

    busy: Dict[str, float] = {}
    for device, us in [part for job in jobs for part in job]:
        busy[device] = busy.get(device, 0.0) + us
    if max(busy.values(), default=0.0) < best:
        go_on([0] * len(jobs), [0.0] * len(jobs), {})
    return best


def least_makespan(problem: Problem) -> float:
    """The least over all legal assignments; infinity without one."""
    best = float("inf")
    for devices in itertools.product(*(item.allowed for item in problem.items)):
        if is_legal(problem, devices):
            best = makespan(problem, devices, best)
    return best


def least(problem: Problem, objective: str, latency_bound_us: Optional[float] = None, fps: Sequence[float] = ()) -> float:
    """The least value over all legal assignments; infinity without one."""
    every = itertools.product(*(item.allowed for item in problem.items))
    legal = (d for d in every if is_legal(problem, d, latency_bound_us, fps))
    return min((value_of(problem, d, objective, fps) for d in legal), default=float("inf"))
