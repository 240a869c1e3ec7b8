"""Cheap lower bounds, so that every answer has a bound. They leave out transitions and loadables."""

from __future__ import annotations

import itertools
from typing import Any, Sequence, Tuple

from edgedla.costs.cost import Cost
from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.vocabulary import GPU

#: Steps of the grid of weights, by number of devices.
GRID = {1: 1, 2: 32, 3: 16}


def simplex(steps: int, size: int) -> Any:
    """All vectors of `size` multiples of 1/steps that sum to 1, as rows of an array."""
    import numpy as np

    rows = [r for r in itertools.product(range(steps + 1), repeat=size) if sum(r) == steps]
    return np.array(rows, dtype=np.double) / steps


def engine_sets(problem: Problem, goal: Goal) -> Tuple[Tuple[str, ...], ...]:
    """Sets of engines to solve for one by one, because the slowdown depends on which engines work."""
    cores = problem.cores
    if goal.objective in ("latency", "energy", "gpu-time"):
        return (problem.devices,)
    few = [cores[:n] for n in range(len(cores) + 1)] if alike(problem) else [(), *((c,) for c in cores), cores]
    gpu = (GPU,) if GPU in problem.devices else ()
    sets = [gpu + tuple(c) for c in few] + [tuple(c) for c in few if c]
    return tuple(s for s in dict.fromkeys(sets) if s and all(not i.layers or set(s) & set(i.allowed) for i in problem.items))


def alike(problem: Problem) -> bool:
    """True if swapping the two DLA cores changes nothing."""
    cores = problem.cores
    return len(cores) == 2 and all(
        (cores[0] in i.allowed) == (cores[1] in i.allowed) and (cores[0] not in i.allowed or i.cost(cores[0]) == i.cost(cores[1]))
        for i in problem.items
    )


def image(devices: Sequence[str], cores: Sequence[str]) -> Tuple[str, ...]:
    """The devices, or on two equal cores their mirror image: the one of both that names the first core first."""
    if next((d for d in devices if d in cores), GPU) in (GPU, *cores[:1]):
        return tuple(devices)
    swap = dict(zip(cores, cores[::-1]))
    return tuple([swap.get(d, d) for d in devices])


def floor(problem: Problem, goal: Goal) -> float:
    """A lower bound of all assignments: each item at its cheapest, balanced over engines as if items were divisible."""
    return min((floor_on(problem, goal, engines)[0] for engines in engine_sets(problem, goal)), default=INFINITY)


def floor_on(problem: Problem, goal: Goal, engines: Sequence[str]) -> Tuple[float, Any]:
    """(`floor` for assignments on one set of engines, the weights that give it: the GPU's, then those of the cores).

        period >= sum over d of weight[d] * load[d] >= sum over items of min over d of weight[d] * time[d]

    for weights that sum to 1; takes the maximum over a grid of weights. Times are per period and include the slowdown.
    A model that must have a layer on the GPU pays one call. A makespan, or a period with one frame in flight, is also
    at least the time of one frame of any model.
    """
    import numpy as np

    devices = tuple(dict.fromkeys((GPU, *engines)))
    count = len(problem.models)
    times = np.full((len(problem.items), len(devices)), np.inf)
    called = np.zeros(count)
    rates = problem.rates if goal.objective == "throughput" else (1.0,) * count
    for i, item in enumerate(problem.items):
        possible = [d for d in devices if d in item.allowed and (d in engines or not item.layers)]
        for d in possible:
            times[i, devices.index(d)] = _price(item.cost(d), d, goal, item.model)
        if item.layers and possible == [GPU]:
            called[item.model] = _price(problem.engine, GPU, goal, item.model)
    models = np.array([item.model for item in problem.items], dtype=int)
    if goal.objective in ("latency", "energy", "gpu-time"):
        least = float(times.min(axis=1).sum() + called.sum()) if len(times) else 0.0
        return least, np.ones(len(devices)) / len(devices)
    factors = np.array([problem.factor(frozenset(engines), d) for d in devices])
    slowed, gpu = times * factors, called * factors[0]
    rate = np.array(rates)
    best, best_weights = 0.0, np.ones(len(devices)) / len(devices)
    for weights in simplex(GRID[len(devices)], len(devices)):
        with np.errstate(invalid="ignore"):
            # Avoids 0 * inf = NaN: a forbidden device stays forbidden even with weight 0.
            work = np.where(np.isinf(times), np.inf, slowed * weights).min(axis=1, initial=np.inf)
        value = float((work * rate[models]).sum() + weights[0] * (gpu * rate).sum())
        if value > best:
            best, best_weights = value, weights
    if goal.objective == "makespan" or goal.one_in_flight:
        for m in range(count):
            frame_us = float(slowed[models == m].min(axis=1, initial=np.inf).sum() + gpu[m])
            best = max(best, rates[m] * frame_us)
    return best, best_weights


def _price(cost: Cost, device: str, goal: Goal, model: int) -> float:
    """What a cost on a device adds to the goal's sum."""
    if goal.objective == "energy":
        return cost.energy_mj * goal.weight(model)
    if goal.objective == "gpu-time":
        return cost.latency_us * goal.weight(model) if device == GPU else 0.0
    return cost.latency_us
