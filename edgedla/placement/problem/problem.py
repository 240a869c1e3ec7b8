"""The placement problem as a value: items with a cost by device, tensors with transition costs, limits. No solver here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Container, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from edgedla.arguments import require_field_types
from edgedla.costs.cost import Cost, device_kind
from edgedla.costs.features import STRUCTURE_SPREAD
from edgedla.errors import UsageError
from edgedla.graph.branches import Choice
from edgedla.vocabulary import DEVICES, GPU

#: (problem, core, items of one model on that core) -> loadables that TensorRT forms of them, as sorted items.
Grouping = Callable[["Problem", str, Tuple[int, ...]], Tuple[Tuple[int, ...], ...]]


@dataclass(frozen=True)
class Item:
    """One unit of one model: layers that TensorRT fuses before it looks at devices, so that they share one.

    Attributes:
        name: name of its first layer.
        model: index of its model in `Problem.models`.
        layers: indices in the model's graph; () for a reshape that only TensorRT's MatMul transform adds.
        allowed: devices that it may run on, in the order of DEVICES; a DLA core only with a DLA verdict.
        costs: by device, or by kind ("GPU", "DLA") for all devices of a kind; devices that are not allowed may be missing.
        batch: the DLA's effective batch; a loadable holds one batch only.
        legal: whether its layers have a DLA verdict (or UNKNOWN is allowed), regardless of pins and options.
        why: "forced" or "pinned" if `allowed` leaves no choice; "" if the solver chooses.
        reason: `why` as a sentence.
        units: number of layers after TensorRT's fusions.
        traffic_bytes: DRAM bytes by device kind.
        weight_bytes, activation_bytes: what it needs of a loadable's global and local DRAM pool.
    """

    name: str
    model: int
    layers: Tuple[int, ...]
    allowed: Tuple[str, ...]
    costs: Mapping[str, Cost]
    batch: int = 1
    legal: bool = True
    why: str = ""
    reason: str = ""
    traffic_bytes: Mapping[str, float] = field(default_factory=dict)
    units: int = 1
    weight_bytes: int = 0
    activation_bytes: int = 0

    def cost(self, device: str) -> Cost:
        cost = self.costs.get(device)
        return self.costs[device_kind(device)] if cost is None else cost

    def time_us(self, device: str) -> float:
        return self.cost(device).latency_us

    def energy_mj(self, device: str) -> float:
        return self.cost(device).energy_mj

    def traffic(self, device: str) -> float:
        """DRAM bytes on a device."""
        by = self.traffic_bytes
        return by[device] if device in by else by.get(device_kind(device), 0.0)


@dataclass(frozen=True)
class Flow:
    """One tensor. Each device that reads it, other than its producer's, costs one transition.

    Attributes:
        producer: the item that writes it; None for a network input, which comes from the GPU side.
        consumers: the items that read it.
        is_output: whether it is a network output, which is read on the GPU side.
        costs: by (source kind, target kind): ("GPU", "DLA"), ("DLA", "GPU"), ("DLA", "DLA") between two cores.
    """

    name: str
    model: int
    producer: Optional[int]
    consumers: Tuple[int, ...]
    is_output: bool
    costs: Mapping[Tuple[str, str], Cost]

    def cost(self, source: str, target: str) -> Cost:
        return self.costs[device_kind(source), device_kind(target)] if source != target else Cost()


@dataclass(frozen=True)
class Link:
    """Two items that run as one operator on the same device. If only the consumer is on a device, `cost(device)` is added."""

    producer: int
    consumer: int
    costs: Mapping[str, Cost]

    def cost(self, device: str) -> Cost:
        cost = self.costs.get(device)
        return self.costs[device_kind(device)] if cost is None else cost


@dataclass(frozen=True)
class Limits:
    """Limits of a placement. Defaults are TensorRT's.

    Attributes:
        loadables_per_core: cap on loadables on one core, over all models (rules LOAD003, LOAD004: 16 from TensorRT 8.5 on).
        max_regions: maximum number of regions in total; None: no limit.
        min_region_layers: minimum number of layers in a region, counted after TensorRT's fusions.
        local_dram_bytes, global_dram_bytes: memory pools of one loadable (rule M-05: 1 GiB for intermediate tensors, 512 MiB
            for weights).

    Raises:
        UsageError: a limit that is not a whole number, or below 0.
    """

    loadables_per_core: int = 16
    max_regions: Optional[int] = None
    min_region_layers: int = 1
    local_dram_bytes: int = 1 << 30
    global_dram_bytes: int = 512 << 20

    def __post_init__(self) -> None:
        require_field_types(self)
        for name, limit in vars(self).items():
            if limit is not None and limit < 0:
                raise UsageError(f"a limit of {limit}", where=name, allowed="a whole number of 0 or more")


@dataclass(frozen=True)
class Problem:
    """Items of one or more models, with flows, links and limits.

    Items are in topological order within each model, and models follow each other: every flow goes to higher indices.

    Attributes:
        models: names of the models; `Item.model` is the index.
        loadable: cost of one region by itself.
        engine: cost of the call of a model's engine, per frame; `evaluate.engine_device` says on which device.
        devices: the devices that may be used.
        rates: for throughput of several models, frames of each model per period.
        slowdown: set of engines that run together -> factor (>= 1) on each engine's time; 1 for missing sets and for one
            engine.
        grouping: the loadables that TensorRT forms of the items on one core.
        defaults: the same if TensorRT itself decides what runs there; None if there is no difference.
        structure_spread: see STRUCTURE_SPREAD.
        choices: by model, the branches of its conditions; costs are of the longer ones. () stands for no conditions.
        schedules: assignment -> the shortest schedule found so far; see `schedule.shortest_schedule`.
    """

    items: Tuple[Item, ...]
    flows: Tuple[Flow, ...]
    links: Tuple[Link, ...]
    grouping: Grouping = field(compare=False, repr=False)
    models: Tuple[str, ...] = ("model",)
    loadable: Cost = field(default_factory=Cost)
    devices: Tuple[str, ...] = DEVICES
    limits: Limits = field(default_factory=Limits)
    rates: Tuple[float, ...] = (1.0,)
    slowdown: Mapping[FrozenSet[str], Mapping[str, float]] = field(default_factory=dict)
    engine: Cost = field(default_factory=Cost)
    defaults: Optional[Grouping] = field(default=None, compare=False, repr=False)
    structure_spread: float = STRUCTURE_SPREAD["fp16"]
    _predecessors: List[Tuple[int, ...]] = field(default_factory=list, init=False, repr=False, compare=False)
    _items_of: Dict[int, List[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    choices: Tuple[Tuple[Choice, ...], ...] = ()
    schedules: Dict[Tuple[str, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _groups: Dict[Tuple[str, Tuple[int, ...]], Tuple[Tuple[int, ...], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        sources: List[Dict[int, None]] = [{} for _ in self.items]
        for flow in self.flows:
            if flow.producer is not None:
                for consumer in flow.consumers:
                    sources[consumer][flow.producer] = None
        self._predecessors.extend(tuple(sorted(f)) for f in sources)
        for i, item in enumerate(self.items):
            self._items_of.setdefault(item.model, []).append(i)

    def by_default(self, models: Optional[Container[int]] = None) -> Problem:
        """The problem with TensorRT's own choice of the core's layers, for these models or all, in place of a placement's."""
        chosen, placed = self.defaults, self.grouping
        if chosen is None:
            return self

        def group(problem: Problem, core: str, members: Tuple[int, ...]) -> Tuple[Tuple[int, ...], ...]:
            own = models is None or problem.items[members[0]].model in models
            return (chosen if own else placed)(problem, core, members)

        return replace(self, grouping=group)

    @property
    def cores(self) -> Tuple[str, ...]:
        return tuple(d for d in self.devices if d != GPU)

    def predecessors(self, item: int) -> Tuple[int, ...]:
        return self._predecessors[item]

    def items_of(self, model: int) -> Tuple[int, ...]:
        return tuple(self._items_of.get(model, ()))

    def factor(self, engines: FrozenSet[str], device: str) -> float:
        """Slowdown factor of a device while all `engines` run."""
        return self.slowdown.get(engines, {}).get(device, 1.0) if len(engines) > 1 else 1.0

    def regions(self, assignment: Sequence[str]) -> Tuple[Tuple[str, Tuple[int, ...]], ...]:
        """(core, items) of every loadable that TensorRT forms of an assignment (a device per item), by first item."""
        loadables: List[Tuple[str, Tuple[int, ...]]] = []
        for core in self.cores:
            for model in range(len(self.models)):
                members = tuple([i for i in self._items_of.get(model, ()) if assignment[i] == core])
                key = (core, members)
                if members and key not in self._groups:
                    self._groups[key] = self.grouping(self, core, members)
                loadables += [(core, g) for g in self._groups.get(key, ())]
        return tuple(sorted(loadables, key=lambda g: (g[1], g[0])))
