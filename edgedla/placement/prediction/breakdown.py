"""Where the time of a frame goes: layers on the GPU, layers on the DLA, loadable starts and transitions."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from edgedla.placement.problem.evaluate import Evaluation, engine_device
from edgedla.placement.problem.problem import Problem
from edgedla.vocabulary import GPU


class LoadableTime(NamedTuple):
    """One loadable of an assignment. `moving_us` is for its start and for the tensors that enter and leave it."""

    layers: Tuple[int, ...]
    working_us: float
    moving_us: float

    def to_dict(self) -> Dict[str, Any]:
        return {"layers": list(self.layers), "working_us": round(self.working_us, 3), "moving_us": round(self.moving_us, 3)}


class Breakdown(NamedTuple):
    """The latency of one frame of one model in parts: gpu_us + dla_us + moving_us.

    Attributes:
        gpu_us: layers on the GPU, and the call of the engine.
        dla_us: layers on DLA cores, and the call of an engine without GPU layers.
        moving_us: starts of loadables, and tensors that cross between devices.
        layer_us: layer index -> time on its device; the first layer of a fused operator has the operator's time.
        crossings: number of tensors that cross.
        busy_gpu_us: `gpu_us` plus the reformats of crossing tensors, which are GPU kernels.
    """

    gpu_us: float
    dla_us: float
    moving_us: float
    layer_us: Mapping[int, float]
    loadables: Tuple[LoadableTime, ...]
    crossings: int
    busy_gpu_us: float

    def by_place(self) -> Dict[str, float]:
        """Only the sums."""
        names = ("gpu_us", "dla_us", "moving_us", "busy_gpu_us")
        return {name: round(getattr(self, name), 3) for name in names}

    def to_dict(self) -> Dict[str, Any]:
        return {
            **self.by_place(),
            "crossings": self.crossings,
            "layers_us": {str(i): round(t, 3) for i, t in sorted(self.layer_us.items())},
            "loadables": [x.to_dict() for x in self.loadables],
        }


def breakdown(problem: Problem, evaluation: Evaluation, model: int = 0) -> Breakdown:
    """The parts of `evaluation.latency(model)`, from the same costs."""
    by_kind = {True: 0.0, False: 0.0}
    layer_us: Dict[int, float] = {}
    for i in problem.items_of(model):
        item, device = problem.items[i], evaluation.assignment[i]
        time_us = item.time_us(device)
        by_kind[device == GPU] += time_us
        for n, layer in enumerate(item.layers):
            layer_us[layer] = time_us if n == 0 else 0.0
    caller = engine_device(problem, evaluation.assignment, model)
    if caller is not None:
        by_kind[caller == GPU] += problem.engine.latency_us
    for index, device in evaluation.separations:
        link = problem.links[index]
        if problem.items[link.consumer].model == model:
            by_kind[device == GPU] += link.cost(device).latency_us
    regions = [r for r in evaluation.regions if r.model == model]
    region_of = {i: n for n, r in enumerate(regions) for i in r.items}
    moving = [problem.loadable.latency_us for _ in regions]
    elsewhere, crossings, reformats = 0.0, 0, 0.0
    for crossing in evaluation.crossings:
        flow = problem.flows[crossing.flow]
        if flow.model != model:
            continue
        crossings += 1
        reformats += crossing.cost.latency_us if crossing.engine == GPU else 0.0
        ends = [*crossing.consumers, *(() if flow.producer is None else (flow.producer,))]
        region = next((region_of[i] for i in ends if i in region_of), None)
        if region is None:
            elsewhere += crossing.cost.latency_us
        else:
            moving[region] += crossing.cost.latency_us
    loadables: List[LoadableTime] = []
    for n, r in enumerate(regions):
        layers = tuple(sorted(x for i in r.items for x in problem.items[i].layers))
        working = sum(problem.items[i].time_us(r.core) for i in r.items)
        loadables.append(LoadableTime(layers, working, moving[n]))
    return Breakdown(
        by_kind[True], by_kind[False], sum(moving) + elsewhere, layer_us, tuple(loadables), crossings, by_kind[True] + reformats
    )
