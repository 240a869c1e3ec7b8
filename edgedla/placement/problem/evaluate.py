"""Costs of an assignment: regions, transitions, latency by model, load by device, energy. No solver here."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import DefaultDict, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.costs.cost import Cost, total, weakest
from edgedla.placement.problem.problem import Problem
from edgedla.vocabulary import GPU


class Region(NamedTuple):
    """A loadable: items of one model on one core that TensorRT makes one subgraph."""

    core: str
    model: int
    items: Tuple[int, ...]


class Crossing(NamedTuple):
    """A tensor that goes from one device to another. `producer` None: a network input. No `consumers`: a network output."""

    flow: int
    source: str
    target: str
    consumers: Tuple[int, ...]
    cost: Cost

    @property
    def engine(self) -> str:
        """The device whose time it takes: the GPU, which reformats; between two cores the reader's."""
        return GPU if GPU in (self.source, self.target) else self.target


@dataclass(frozen=True)
class Evaluation:
    """Costs of one assignment.

    Attributes:
        assignment: the device of each item.
        regions: all loadables, by first item.
        crossings: all transitions, by flow.
        separations: (link index, device of the consumer) of every operator that is split between devices.
        loads: (model, device) -> time and energy of one frame there, without slowdown.
        widening: by model, additional spread for the structure of its engine; see `features.STRUCTURE_SPREAD`.
        engines: devices with layers; a device with only reformats does not count.
    """

    assignment: Tuple[str, ...]
    regions: Tuple[Region, ...]
    crossings: Tuple[Crossing, ...]
    separations: Tuple[Tuple[int, str], ...]
    loads: Mapping[Tuple[int, str], Cost]
    engines: FrozenSet[str]
    widening: Tuple[float, ...] = ()

    def latency(self, model: int) -> Cost:
        """Cost of one frame that runs alone: TensorRT runs the parts of an engine one after the other, so their times add."""
        cost = total(cost for (m, _), cost in sorted(self.loads.items()) if m == model)
        return cost.stretched(1.0, self.widening[model]) if self.widening else cost

    def basis(self, model: int) -> str:
        """The weakest basis of a model's times."""
        return weakest(cost.basis for (m, _), cost in self.loads.items() if m == model)

    def load(self, problem: Problem, device: str) -> Cost:
        """Work on a device per period: `rates[m]` frames of every model m, slowed down by the other engines in use."""
        factor = problem.factor(self.engines, device)
        parts = [self.loads[m, device].scaled(rate) for m, rate in enumerate(problem.rates) if (m, device) in self.loads]
        # An idle device has the basis of the costs that keep the work elsewhere.
        cost = total(parts) if parts else Cost(basis=weakest(c.basis for c in self.loads.values()))
        return Cost(cost.latency_us * factor, cost.energy_mj, cost.basis, cost.spread, cost.energy_spread)

    def busiest(self, problem: Problem) -> Cost:
        """The largest load of a device."""
        return max((self.load(problem, d) for d in problem.devices), key=lambda c: c.latency_us)

    def period(self, problem: Problem) -> Cost:
        """The time between two sets of frames with enough of them in flight, and the energy of a set on all devices."""
        work = total(self.load(problem, d) for d in problem.devices)
        return replace(self.busiest(problem), energy_mj=work.energy_mj, energy_spread=work.energy_spread)

    def energy(self) -> Cost:
        """Cost of one frame of every model, one after the other: the sum of their `latency`."""
        return total(self.latency(m) for m in sorted({m for m, _ in self.loads}))


def evaluate(problem: Problem, assignment: Sequence[str]) -> Evaluation:
    """The costs of an assignment (a device by item). It need not keep the limits; `validate` says whether it does."""
    devices = tuple(assignment)
    loads: DefaultDict[Tuple[int, str], List[Cost]] = defaultdict(list)
    for model in range(len(problem.models)):
        for i in problem.items_of(model):
            loads[model, devices[i]].append(problem.items[i].cost(devices[i]))
        caller = engine_device(problem, devices, model)
        if caller is not None:
            loads[model, caller].append(problem.engine)
    regions = tuple(Region(core, problem.items[group[0]].model, group) for core, group in problem.regions(devices))
    for region in regions:
        loads[region.model, region.core].append(problem.loadable)
    crossings = tuple([c for i in range(len(problem.flows)) for c in crossings_of(problem, i, devices)])
    for crossing in crossings:
        loads[problem.flows[crossing.flow].model, crossing.engine].append(crossing.cost)
    separations = tuple(
        (i, devices[link.consumer]) for i, link in enumerate(problem.links) if devices[link.producer] != devices[link.consumer]
    )
    for i, device in separations:
        link = problem.links[i]
        loads[problem.items[link.consumer].model, device].append(link.cost(device))
    summed = {key: total(costs) for key, costs in sorted(loads.items())}
    engines = frozenset(d for item, d in zip(problem.items, devices) if item.layers)
    widening = tuple(_widening(problem, devices, regions, m) for m in range(len(problem.models)))
    return Evaluation(devices, regions, crossings, separations, summed, engines, widening)


def _widening(problem: Problem, devices: Sequence[str], regions: Sequence[Region], model: int) -> float:
    loadables = sum(r.model == model for r in regions)
    fallback = any(devices[i] == GPU and problem.items[i].layers for i in problem.items_of(model))
    return problem.structure_spread if loadables > 1 or (loadables and fallback) else 0.0


def engine_device(problem: Problem, devices: Sequence[str], model: int) -> Optional[str]:
    """The device whose time the call of a model's engine takes: the GPU if the model has layers there, else the core of its
    last item. None for a model without layers."""
    with_layers = [i for i in problem.items_of(model) if problem.items[i].layers]
    if not with_layers:
        return None
    return GPU if any(devices[i] == GPU for i in with_layers) else devices[with_layers[-1]]


def crossings_of(problem: Problem, index: int, devices: Sequence[str]) -> List[Crossing]:
    """The transitions of one tensor, by target device."""
    flow = problem.flows[index]
    source = GPU if flow.producer is None else devices[flow.producer]
    if (source == GPU or not flow.is_output) and all(devices[c] == source for c in flow.consumers):
        return []
    readers: Dict[str, List[int]] = {GPU: []} if flow.is_output else {}
    for consumer in flow.consumers:
        readers.setdefault(devices[consumer], []).append(consumer)
    return [
        Crossing(index, source, target, tuple(readers[target]), flow.cost(source, target))
        for target in sorted(readers)
        if target != source
    ]


def worth(problem: Problem, evaluation: Evaluation, objective: str) -> float:
    """The number that an objective minimises: latency, energy or GPU time summed over the models, or the period, in us or mJ.

    For "makespan" it is the bound that loads and latencies set; `schedule.makespan` gives the length of a real schedule.
    """
    if objective == "latency":
        return sum(evaluation.latency(m).latency_us for m in range(len(problem.models)))
    if objective == "energy":
        return evaluation.energy().energy_mj
    if objective == "gpu-time":
        return sum(cost.latency_us for (_, device), cost in evaluation.loads.items() if device == GPU)
    if objective == "throughput":
        return evaluation.busiest(problem).latency_us
    if objective == "makespan":
        return makespan_bound(problem, evaluation)
    raise ValueError(f"unknown objective {objective!r}")


def makespan_bound(problem: Problem, evaluation: Evaluation) -> float:
    """max over devices of their load and over models of their own serial time, one frame each, slowdown counted."""
    engines = evaluation.engines
    by_device: Dict[str, float] = {}
    by_model: Dict[int, float] = {}
    for (model, device), cost in evaluation.loads.items():
        time_us = cost.latency_us * problem.factor(engines, device)
        by_device[device] = by_device.get(device, 0.0) + time_us
        by_model[model] = by_model.get(model, 0.0) + time_us
    return max([*by_device.values(), *by_model.values()], default=0.0)
