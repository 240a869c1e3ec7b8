"""Schedules: segments of each model, the shortest schedule of several models, the steady state of a stream.

A DLA engine with layers that fall back to the GPU queues behind the GPU: its GPU segments, and the reformats at its
borders, take the GPU like any other work, one at a time and without preemption, and later segments wait. The waits follow
from the schedule and from a frame's way through a pipeline; they are no mean that is added. In a period they are part of
the GPU's load.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.evaluate import Evaluation, engine_device
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule_search import ScheduleSearch
from edgedla.vocabulary import GPU


class Segment(NamedTuple):
    """A stretch of one model's frame on one device: a loadable, or GPU layers and reformats without a break.

    Attributes:
        device: "GPU", "DLA0" or "DLA1".
        model: index of the model.
        time_us: without slowdown.
        items: the items that run; () for only reformats.
        reformat_us: the part of time_us that reformats take.
    """

    device: str
    model: int
    time_us: float
    items: Tuple[int, ...]
    reformat_us: float


class Bar(NamedTuple):
    """A segment at its time. `frame` counts from 0."""

    device: str
    model: int
    segment: int
    start_us: float
    end_us: float
    items: Tuple[int, ...]
    frame: int = 0


class Schedule(NamedTuple):
    """Bars by start; `length_us` of the schedule, and a bound that no schedule of these segments is below."""

    bars: Tuple[Bar, ...]
    length_us: float
    bound_us: float


def segments(problem: Problem, evaluation: Evaluation, model: int) -> Tuple[Segment, ...]:
    """One frame of a model in the order in which its engines run it; the sum of the times is its latency.

    Of all segments that could run next, those on the current device come first; ties by the first layer.
    """
    assignment = evaluation.assignment
    node_of: Dict[int, int] = {}
    members: List[Tuple[int, ...]] = []
    regions = [r for r in evaluation.regions if r.model == model]
    for group in [r.items for r in regions] + [(i,) for i in problem.items_of(model) if assignment[i] == GPU]:
        node_of.update({i: len(members) for i in group})
        members.append(group)
    order = _order(problem, members, node_of, assignment)
    compute: Dict[int, float] = {n: 0.0 for n in order}
    reformat: Dict[int, float] = {n: 0.0 for n in order}
    before: Dict[int, float] = {}
    tail = 0.0
    position = {n: k for k, n in enumerate(order)}
    for i in node_of:
        compute[node_of[i]] += problem.items[i].time_us(assignment[i])
    for n in range(len(regions)):
        compute[n] += problem.loadable.latency_us
    on_gpu = [n for n in order if assignment[members[n][0]] == GPU and problem.items[members[n][0]].layers]
    if on_gpu:
        compute[on_gpu[0]] += problem.engine.latency_us
    elif engine_device(problem, assignment, model) is not None:
        last = max(i for i in problem.items_of(model) if problem.items[i].layers)
        compute[node_of[last]] += problem.engine.latency_us
    for index, device in evaluation.separations:
        link = problem.links[index]
        if link.consumer in node_of:
            compute[node_of[link.consumer]] += link.cost(device).latency_us
    for crossing in evaluation.crossings:
        if problem.flows[crossing.flow].model != model:
            continue
        time_us = crossing.cost.latency_us
        if not crossing.consumers:
            tail += time_us
            continue
        node = min((node_of[c] for c in crossing.consumers), key=lambda n: position[n])
        if crossing.engine == assignment[members[node][0]]:
            compute[node] += time_us
            reformat[node] += time_us
        else:
            before[node] = before.get(node, 0.0) + time_us
    parts: List[Segment] = []
    for node in order:
        if before.get(node, 0.0) > 0:
            parts.append(Segment(GPU, model, before[node], (), before[node]))
        parts.append(Segment(assignment[members[node][0]], model, compute[node], members[node], reformat[node]))
    if tail > 0:
        parts.append(Segment(GPU, model, tail, (), tail))
    return _joined(parts)


def _joined(parts: Sequence[Segment]) -> Tuple[Segment, ...]:
    """Joins consecutive GPU parts, in one pass, because a network may have 100,000 of them in a row."""
    joined: List[Segment] = []
    for on_gpu, group in itertools.groupby(parts, key=lambda s: s.device == GPU):
        if not on_gpu:
            joined.extend(group)
            continue
        row = list(group)
        items = tuple(itertools.chain.from_iterable(s.items for s in row))
        joined.append(Segment(GPU, row[0].model, sum(s.time_us for s in row), items, sum(s.reformat_us for s in row)))
    return tuple(joined)


def _order(problem: Problem, members: Sequence[Tuple[int, ...]], node_of: Dict[int, int], assignment: Sequence[str]) -> List[int]:
    sources: List[Set[int]] = [set() for _ in members]
    readers: List[Set[int]] = [set() for _ in members]
    for i, node in node_of.items():
        for p in problem.predecessors(i):
            if node_of[p] != node:
                sources[node].add(node_of[p])
                readers[node_of[p]].add(node)
    waiting = [len(s) for s in sources]
    ready: Dict[str, List[Tuple[int, int]]] = {}

    def add(node: int) -> None:
        heapq.heappush(ready.setdefault(assignment[members[node][0]], []), (members[node][0], node))

    for node, count in enumerate(waiting):
        if count == 0:
            add(node)
    order: List[int] = []
    now: Optional[str] = None
    while any(ready.values()):
        if now is None or not ready.get(now):
            now = min((d for d in ready if ready[d]), key=lambda d: ready[d][0])
        _, node = heapq.heappop(ready[now])
        order.append(node)
        for r in readers[node]:
            waiting[r] -= 1
            if waiting[r] == 0:
                add(r)
    assert len(order) == len(members), "regions and items wait for each other in a circle"
    return order


def shortest_schedule(problem: Problem, evaluation: Evaluation, deadline: Deadline = NEVER) -> Schedule:
    """The shortest schedule of one frame of every model from time 0: segments in order, one at a time per device.

    Branch and bound over active schedules. Every segment has the slowdown of all engines in use, even while it runs alone,
    which overestimates its time. The result is cached per assignment.

    Args:
        deadline: the best schedule by then is returned, with a bound.
    """
    key = evaluation.assignment
    if key not in problem.schedules:
        problem.schedules[key] = _search(problem, evaluation, deadline)
    schedule: Schedule = problem.schedules[key]
    return schedule


def _search(problem: Problem, evaluation: Evaluation, deadline: Deadline) -> Schedule:
    jobs = [segments(problem, evaluation, m) for m in range(len(problem.models))]
    times = [[s.time_us * problem.factor(evaluation.engines, s.device) for s in job] for job in jobs]
    search = ScheduleSearch([[s.device for s in job] for job in jobs], times, deadline)
    search.run()
    bars = [
        Bar(s.device, j, k, search.starts[j][k], search.starts[j][k] + times[j][k], s.items)
        for j, job in enumerate(jobs)
        for k, s in enumerate(job)
    ]
    bars.sort(key=lambda b: (b.start_us, b.model, b.segment))
    return Schedule(tuple(bars), search.length_us, search.bound_us)


def in_turn(problem: Problem, evaluation: Evaluation) -> Schedule:
    """Schedule of one frame of every model, one model after the other, without slowdown, as for latency and energy."""
    bars: List[Bar] = []
    now = 0.0
    for m in range(len(problem.models)):
        for k, s in enumerate(segments(problem, evaluation, m)):
            bars.append(Bar(s.device, m, k, now, now + s.time_us, s.items))
            now += s.time_us
    return Schedule(tuple(bars), now, now)


def steady_state(problem: Problem, evaluation: Evaluation) -> Tuple[Schedule, Tuple[float, ...]]:
    """(one period of a stream, latency of a frame of each model).

    Each device runs its segments back to back once per period, those of model m rates[m] times. A frame's next segment starts
    in the first slot after its last one ended. With enough buffers this repeats without a stall.
    """
    period = evaluation.busiest(problem).latency_us
    bars: List[Bar] = []
    latencies: List[float] = []
    free: Dict[str, float] = {}
    for m, rate in enumerate(problem.rates):
        now = 0.0
        for k, s in enumerate(segments(problem, evaluation, m)):
            time_us = s.time_us * problem.factor(evaluation.engines, s.device)
            slot = free.get(s.device, 0.0)
            free[s.device] = slot + time_us * rate
            frame = max(0, int(-(-(now - slot - 1e-9) // period))) if period > 0 else 0
            bars.append(Bar(s.device, m, k, slot, slot + time_us * rate, s.items, frame))
            now = slot + frame * period + time_us
        latencies.append(now)
    bars.sort(key=lambda b: (b.start_us, b.model, b.segment))
    return Schedule(tuple(bars), period, period), tuple(latencies)
