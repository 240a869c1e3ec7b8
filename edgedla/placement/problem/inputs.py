"""Makes the placement problem from graphs, verdicts and costs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from edgedla.costs.cost import Cost
from edgedla.costs.layer_costs import LayerCosts
from edgedla.costs.model import CostModel
from edgedla.costs.operators import Operator
from edgedla.errors import ModelError, UsageError
from edgedla.graph import LayerGraph, Tensor
from edgedla.graph.branches import Choice, choices_of
from edgedla.graph.open_sizes import data_sizes_text, open_sizes_text
from edgedla.placement.problem.borders import Borders, border_format
from edgedla.placement.problem.grouping import default_grouping, tensorrt_grouping
from edgedla.placement.problem.items import ItemMaker
from edgedla.placement.problem.loops import in_all_passes, in_order, loops_of, of_longer_branches, times_made
from edgedla.placement.problem.model import Model, legal_units, thrown_out
from edgedla.placement.problem.problem import Flow, Item, Limits, Link, Problem
from edgedla.regions.cap import CAP_RULE, subgraphs_per_core
from edgedla.regions.fusions import INNER_IN, UnitGraph, fuse, outer_name
from edgedla.targets import Platform
from edgedla.vocabulary import DEVICES, GPU


def require_sizes(graph: LayerGraph) -> None:
    """Refuses graphs with open sizes, because costs need numbers.

    Raises:
        UsageError: a network input leaves a size open. ModelError: a size, or how often a loop runs, depends on the data.
    """
    text = open_sizes_text(graph)
    if text:
        raise UsageError(text, where=graph.name)
    of_the_data = data_sizes_text(graph)
    if of_the_data:
        raise ModelError(
            of_the_data, where=graph.name,
            hint="end the model before the operator that makes it (NonMaxSuppression, NonZero, Loop, ...): `edgedla fix --only decoder-cut "
            "--change-outputs` cuts a detector's decoder off",
        )  # fmt: skip


def problem_on(
    models: Sequence[Model],
    costs: CostModel,
    platform: Platform,
    limits: Optional[Limits] = None,
    use_unknown: bool = False,
    borders: Borders = None,
    most_cores: int = 2,
) -> Problem:
    """`problem_of` on the GPU and the platform's DLA cores, by default with the release's limit of loadables per core."""
    cores = min(platform.module.dla_cores, most_cores) if platform.has_dla else 0
    return problem_of(models, costs, DEVICES[: 1 + cores], limits_on(platform, limits), use_unknown, borders)


def limits_on(platform: Platform, limits: Optional[Limits] = None) -> Limits:
    """The limits, by default the release's: the defaults of `Limits` are those of the newest releases.

    Raises:
        UsageError: more loadables on a core than the release takes; `build` would refuse such a placement.
    """
    if limits is None or limits.loadables_per_core == Limits.loadables_per_core:
        return replace(limits or Limits(), loadables_per_core=subgraphs_per_core(platform))
    require_loadables(platform, limits.loadables_per_core)
    return limits


def require_loadables(platform: Platform, per_core: int) -> None:
    """Raises UsageError if the release takes fewer loadables on one core."""
    cap = subgraphs_per_core(platform)
    if cap and per_core > cap:
        raise UsageError(
            f"TensorRT {platform.release.trt_text} takes {cap} loadables on one DLA core, not {per_core}",
            where="loadables_per_core", allowed=f"1 to {cap}", hint=f"`edgedla explain {CAP_RULE}` shows the sources",
        )  # fmt: skip


def problem_of(
    models: Sequence[Model],
    costs: CostModel,
    devices: Tuple[str, ...],
    limits: Limits,
    use_unknown: bool = False,
    borders: Borders = None,
) -> Problem:
    """The problem of placing these models on one platform, all at one precision.

    A pin decides the device of its whole unit. Pins must have been checked (`pins.check_pins`).

    Args:
        borders: formats of network inputs and outputs, see `borders.border_format`.

    Raises:
        UsageError: a network input has open dims, so that costs are unknown.
    """
    items: List[Item] = []
    flows: List[Flow] = []
    links: List[Link] = []
    graphs: List[UnitGraph] = []
    units_by_item: List[Tuple[int, ...]] = []
    failing: List[Mapping[int, str]] = []
    choices: List[Tuple[Choice, ...]] = []
    loadable = costs.loadable() if any(d != GPU for d in devices) else Cost()
    for m, model in enumerate(models):
        require_sizes(model.graph)
        units = fuse(model.graph)
        graphs.append(units)
        failing.append(thrown_out(model, units, use_unknown))
        layer_costs = in_all_passes(costs.layer_costs(model.graph), model.graph, costs)
        choices.append(choices_of(model.graph, partial(_gpu_us, layer_costs)))
        skipped = frozenset(i for choice in choices[m] for i in choice.lighter)
        layer_costs = of_longer_branches(layer_costs, skipped)
        legal = legal_units(model, units, use_unknown)
        maker = ItemMaker(model, m, units, devices, layer_costs, costs.precision, use_unknown)
        item_of: Dict[int, int] = {}
        for members in in_order(units, whole_operators(model, units, legal, costs.operators(model.graph))):
            item_of.update({u: len(items) for u in members})
            units_by_item.append(members)
            item = maker.item(members, all(legal[u] for u in members))
            items.append(_started(item, model.graph, loadable))
        for flow in _flows(model.graph, m, units, item_of, costs, any(d != GPU for d in devices), borders):
            flows.append(_repeated(flow, items, model.graph, skipped))
        for (producer, consumer), by_kind in sorted(layer_costs.separations.items()):
            ends = [item_of[units.unit_of[i]] for i in (producer, consumer) if i in units.unit_of]
            if len(ends) == 2 and ends[0] != ends[1]:
                links.append(Link(ends[0], ends[1], by_kind))
    return Problem(
        items=tuple(items),
        flows=tuple(flows),
        links=tuple(links),
        grouping=tensorrt_grouping(graphs, units_by_item, costs.precision),
        models=tuple(m.graph.name for m in models),
        engine=costs.engine(),
        defaults=default_grouping(graphs, units_by_item, failing, costs.precision) if any(failing) else None,
        loadable=loadable,
        devices=devices,
        limits=limits,
        rates=tuple(m.rate for m in models),
        slowdown=_slowdown(items, devices, costs),
        choices=tuple(choices) if any(choices) else (),
    )


def whole_operators(
    model: Model, units: UnitGraph, legal: Sequence[bool], operators: Sequence[Operator]
) -> List[Tuple[int, ...]]:
    """Units by item: an operator that TensorRT fuses (Conv + ReLU + Add) is one item if all its units have the same devices.

    A unit joins the reader of its output when the two are linked in one operator or run in the passes of one loop, nothing else
    reads the output, and both have the same legality, pin and batch. Items are in topological order, by their last unit.
    """
    # Unit -> the unit that it joined, or itself; the end of that chain is the item.
    joins = list(range(len(units.units)))
    outputs = model.graph.output_names

    def item(u: int) -> int:
        while joins[u] != u:
            joins[u] = u = joins[joins[u]]
        return u

    def kind(u: int) -> Tuple[bool, int, Tuple[Optional[str], ...]]:
        pins = {model.pins.get(i) for i in units.units[u].layers}
        return legal[u], units.units[u].batch, tuple(sorted(pins, key=str))

    linked = [
        (units.unit_of.get(producer), units.unit_of.get(consumer))
        for operator in operators
        for producer, consumer in operator.links
    ]
    around = model.graph.loops_around
    for layer in model.graph.runs:
        linked += [
            (units.unit_of.get(layer), units.unit_of.get(reader))
            for reader in model.graph.successors(layer)
            if legal[units.unit_of.get(layer, 0)] and around.get(reader) == around[layer]
        ]
    for a, b in linked:
        if a is None or b is None or a == b or units.successors[a] != (b,) or kind(a) != kind(b):
            continue
        if outputs.isdisjoint(units.units[a].outputs):
            joins[item(a)] = item(b)
    item_of = [item(u) for u in range(len(units.units))]
    for loop in loops_of(model.graph, units):
        last = item_of[loop[-1]]
        for u in loop:
            item_of[u] = last
    members: Dict[int, List[int]] = {}
    for u, k in enumerate(item_of):
        members.setdefault(k, []).append(u)
    return sorted((tuple(m) for m in members.values()), key=lambda m: m[-1])


def _gpu_us(costs: LayerCosts, layer: int) -> float:
    return costs[layer, GPU].latency_us


def _started(item: Item, graph: LayerGraph, loadable: Cost) -> Item:
    """The item with the starts of its loadable from a loop's second pass on; every loadable pays one start of its own.

    Items of one body pay each: a loadable of several costs less than that.
    """
    passes = max((graph.runs.get(i, 1) or 1 for i in item.layers), default=1)
    if passes == 1:
        return item
    more = loadable.scaled(passes - 1)
    return replace(item, costs={d: cost if d == GPU else cost + more for d, cost in item.costs.items()})


def _repeated(flow: Flow, items: Sequence[Item], graph: LayerGraph, skipped: FrozenSet[int]) -> Flow:
    """The flow with the costs of a frame: it crosses as often as its tensor is made, and not at all in a branch that does not run."""
    reading = [i for item in flow.consumers for i in items[item].layers]
    producer = None if flow.producer is None else graph.producer(flow.name)
    passes = 1 if producer is None else times_made(graph, producer)
    if producer in skipped or (reading and not flow.is_output and skipped.issuperset(reading)):
        passes = 0
    if passes == 1:
        return flow
    return replace(flow, costs={ends: cost.scaled(passes) for ends, cost in flow.costs.items()})


def _flows(
    graph: LayerGraph,
    m: int,
    units: UnitGraph,
    item_of: Mapping[int, int],
    costs: CostModel,
    any_core: bool,
    borders: Borders,
) -> List[Flow]:
    readers: Dict[Tuple[Optional[int], str], List[int]] = {}
    for u, unit in enumerate(units.units):
        for name in unit.network_inputs:
            readers.setdefault((None, name), []).append(item_of[u])
        for producer, name in unit.inputs:
            # What a loop passes to its next step stays in the loop.
            if item_of[producer] != item_of[u]:
                readers.setdefault((item_of[producer], name), []).append(item_of[u])
    outputs = _written_outputs(graph, units)
    priced: Dict[Tuple[object, ...], Mapping[Tuple[str, str], Cost]] = {}
    for u, unit in enumerate(units.units):
        for name in unit.outputs:
            if name in outputs:
                readers.setdefault((item_of[u], name), [])
    flows = []
    order: List[Tuple[Optional[int], str]] = sorted(readers, key=lambda k: (-1 if k[0] is None else k[0], k[1]))
    for source, name in order:
        tensor = _tensor(graph, name)
        input_format = border_format(borders, name, "inputs", costs.precision) if source is None else None
        # A network output that a layer reads too is needed in the reader's format.
        is_last = name in outputs and not readers[source, name]
        handed_out = border_format(borders, name, "outputs", costs.precision) if is_last else None
        # Tensors of one size share their costs: a network has many tensors, but few sizes.
        alike = (tensor.dims, tensor.dtype, input_format, handed_out)
        by_kind = priced.get(alike)
        if by_kind is None:
            by_kind = priced[alike] = _transitions(costs, tensor, input_format, handed_out) if any_core else {}
        consumers = tuple(sorted(set(readers[source, name])))
        flows.append(Flow(outer_name(name, graph.tensors), m, source, consumers, name in outputs, by_kind))
    return flows


def _transitions(
    costs: CostModel, tensor: Tensor, input_format: Optional[str], handed_out: Optional[str]
) -> Mapping[Tuple[str, str], Cost]:
    return {
        ("GPU", "DLA"): costs.transition(tensor, "GPU", "DLA0", source_format=input_format),
        ("DLA", "GPU"): costs.transition(tensor, "DLA0", "GPU", target_format=handed_out),
        ("DLA", "DLA"): costs.transition(tensor, "DLA0", "DLA1"),
    }


def _written_outputs(graph: LayerGraph, units: UnitGraph) -> FrozenSet[str]:
    """The tensors that become network outputs; after a folded layer (a final Flatten) it is the tensor that the layer reads."""
    written = {name for unit in units.units for name in unit.outputs}
    names = set()
    for name in graph.outputs:
        producer = graph.producer(name)
        while name not in written and producer is not None:
            before = graph.activations(graph.layers[producer])
            if not before:
                break
            name = before[0].name
            producer = graph.producer(name)
        names.add(name)
    return frozenset(names)


def _tensor(graph: LayerGraph, name: str) -> Tensor:
    """The tensor; the inner ones of a rewritten MatMul, `out\\0in` and `out\\0out`, are its input and its output."""
    outer = outer_name(name, graph.tensors)
    if outer != name and name.endswith(INNER_IN):
        producer = graph.producer(outer)
        # A fused bias comes after the MatMul; its input has the output's size.
        while producer is not None and graph.layers[producer].type != "MATRIX_MULTIPLY":
            producer = graph.producer(graph.activations(graph.layers[producer])[0].name)
        if producer is not None:
            return graph.activations(graph.layers[producer])[0]
    return graph.tensors[outer]


def _slowdown(
    items: Sequence[Item], devices: Tuple[str, ...], costs: CostModel
) -> Mapping[FrozenSet[str], Mapping[str, float]]:
    """Slowdown factors by set of engines; each engine moves the mean traffic of the items that it may run.

    factor = 1 + transfers' share of its time * (CostModel.transfer_factor - 1): arithmetic is not slowed down. Traffic in
    GB/s is sum of bytes / sum of times; the traffic of the other engines adds up.
    """
    rate: Dict[str, float] = {}
    share: Dict[str, float] = {}
    for device in devices:
        able = [i for i in items if device in i.traffic_bytes]
        time_us = sum(i.time_us(device) for i in able)
        rate[device] = sum(i.traffic_bytes[device] for i in able) / time_us / 1e3 if time_us > 0 else 0.0
        share[device] = min(sum(i.cost(device).transfer_us for i in able) / time_us, 1.0) if time_us > 0 else 0.0
    factors: Dict[FrozenSet[str], Mapping[str, float]] = {}
    for size in range(2, len(devices) + 1):
        for together in itertools.combinations(devices, size):
            external = sum(rate[d] for d in together)
            factors[frozenset(together)] = {
                d: 1.0 + share[d] * (costs.transfer_factor(d, rate[d], external - rate[d]) - 1.0) for d in together
            }
    return factors
