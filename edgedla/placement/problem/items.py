"""Makes the items of a placement problem: costs of a network's units, their allowed devices, and why no others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Dict, Mapping, Sequence, Tuple

from edgedla.costs.cost import Cost, device_kind, total
from edgedla.placement.problem.model import Model, why_not
from edgedla.placement.problem.priced import Priced
from edgedla.placement.problem.problem import Item
from edgedla.regions.fusions import Unit, UnitGraph
from edgedla.regions.work import work_of
from edgedla.vocabulary import GPU

#: Bytes of one weight, by precision.
WEIGHT_BYTES = {"fp16": 2, "int8": 1}


def joined(units: UnitGraph, members: Sequence[int]) -> Unit:
    """One unit in place of several: the layers of all, the outputs of the last."""
    last = units.units[members[-1]]
    if len(members) == 1:
        return last
    return last._replace(layers=tuple(sorted(i for u in members for i in units.units[u].layers)))


@dataclass
class ItemMaker:
    """Makes the items of one model. Items share equal values (costs, traffic).

    Attributes:
        index: index of the model in the problem.
        network: the model's, which keeps the items for other problems.
        loadable: what a loadable costs by being one.
        devices: the devices of the problem.
        use_unknown: layers with an unknown verdict may run on the DLA.
    """

    model: Model
    index: int
    network: Priced
    devices: Tuple[str, ...]
    loadable: Cost
    precision: str
    use_unknown: bool = False
    _costs: Dict[Tuple[int, ...], Mapping[str, Cost]] = field(default_factory=dict, init=False)
    _traffic: Dict[Tuple[float, ...], Mapping[str, float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._work = work_of(self.model.graph)

    def item(self, members: Tuple[int, ...], legal: bool) -> Item:
        """One item of these units. `legal`: whether the DLA may run all of them."""
        unit = joined(self.network.units, members)
        where = self._where(unit, legal)
        key = (self.index, self.devices, members, legal, where)
        item = self.network.items.get(key)
        if item is None:
            item = self.network.items[key] = self._started(self._item(unit, len(members), legal, *where))
        return item

    def _item(self, unit: Unit, units: int, legal: bool, allowed: Tuple[str, ...], why: str, reason: str) -> Item:
        graph = self.model.graph
        if not unit.layers:
            name = f"reshape beside {graph.layers[unit.reshape_of[0]].name}"
            return Item(name, self.index, (), allowed, {GPU: Cost()}, unit.batch, False, why, reason, units=units)
        possible = tuple(d for d in self.devices if d == GPU or legal)
        possible = possible if GPU in possible else (GPU, *possible)
        each = WEIGHT_BYTES[self.precision]
        outputs = [t for i in unit.layers for t in graph.output_tensors(graph.layers[i])]
        return Item(
            name=graph.layers[unit.layers[0]].name,
            model=self.index,
            layers=unit.layers,
            allowed=allowed,
            costs=self._costs_of(unit.layers, possible),
            batch=unit.batch,
            legal=legal,
            why=why,
            reason=reason,
            traffic_bytes=self._traffic_of(unit.layers, possible),
            units=units,
            weight_bytes=sum(self._work[i].weight_elements * each for i in unit.layers),
            activation_bytes=max((t.size_bytes(each) for t in outputs), default=0),
        )

    def _started(self, item: Item) -> Item:
        """The item with the starts of its loadable from a loop's second pass on; every loadable pays one start of its own.

        Items of one body pay each: a loadable of several costs less than that.
        """
        passes = max((self.model.graph.runs.get(i, 1) or 1 for i in item.layers), default=1)
        if passes == 1:
            return item
        more = self.loadable.scaled(passes - 1)
        return replace(item, costs={d: cost if d == GPU else cost + more for d, cost in item.costs.items()})

    def _where(self, unit: Unit, legal: bool) -> Tuple[Tuple[str, ...], str, str]:
        """(allowed devices of the item, key of WHY, reason why there are no more)."""
        if not unit.layers:
            return (GPU,), "forced", "a reshape that the GPU runs"
        allowed = tuple(d for d in self.devices if d == GPU or legal)
        why, reason = ("", "") if legal else ("forced", why_not(self.model, unit, self.use_unknown))
        pin = next((self.model.pins[i] for i in unit.layers if i in self.model.pins), None) if self.model.pins else None
        if pin is not None:
            allowed = tuple(d for d in allowed if d == pin or (pin == "DLA" and d != GPU))
            if why == "":
                why, reason = "pinned", f"pinned to {pin}"
        elif legal and len(allowed) == 1:
            why, reason = "forced", f"only {allowed[0]} may be used"
        return allowed, why, reason

    def _costs_of(self, layers: Tuple[int, ...], possible: Tuple[str, ...]) -> Mapping[str, Cost]:
        parts = [[self.network.layer_costs[i, d] for i in layers] for d in possible]
        # `network` outlives this object, so ids of its costs stay valid.
        key = (len(layers), len(possible), *(id(cost) for column in parts for cost in column))
        if key not in self._costs:
            sums = (column[0] if len(column) == 1 else total(column) for column in parts)
            self._costs[key] = dict(zip(possible, sums))
        return self._costs[key]

    def _traffic_of(self, layers: Tuple[int, ...], possible: Tuple[str, ...]) -> Mapping[str, float]:
        values = tuple(sum(self.network.layer_costs.traffic_bytes[i, device_kind(d)] for i in layers) for d in possible)
        return self._traffic.setdefault((len(possible), *values), dict(zip(possible, values)))
