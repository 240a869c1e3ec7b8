"""Makes the placement problem from graphs, verdicts and costs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.costs.cost import Cost
from edgedla.costs.features import STRUCTURE_SPREAD
from edgedla.costs.model import CostModel
from edgedla.costs.transition import FORMATS, NATIVE_FORMATS, own_format
from edgedla.errors import UsageError
from edgedla.graph import LayerGraph, Tensor
from edgedla.graph.branches import Choice
from edgedla.placement.problem.grouping import default_grouping, tensorrt_grouping
from edgedla.placement.problem.items import ItemMaker
from edgedla.placement.problem.loops import in_order, times_made
from edgedla.placement.problem.model import Model, legal_units, thrown_out
from edgedla.placement.problem.priced import Priced, priced
from edgedla.placement.problem.problem import Flow, Item, Limits, Link, Problem
from edgedla.regions.cap import CAP_RULE, IN_USE_RULE, subgraphs_per_core
from edgedla.regions.fusions import INNER_IN, UnitGraph, fuse, outer_name
from edgedla.targets import Platform
from edgedla.vocabulary import DEVICES, GPU

#: One format for all, or formats by tensor name, or by "inputs" and "outputs".
Borders = Union[None, str, Mapping[str, str]]


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
    return problem_of(models, costs, DEVICES[: 1 + cores], limits_on(platform, limits, len(models)), use_unknown, borders)


def limits_on(platform: Platform, limits: Optional[Limits] = None, models: int = 1) -> Limits:
    """The limits, by default the release's for so many models: the defaults of `Limits` are those of the newest releases.

    Raises:
        UsageError: more loadables on a core than the release takes; `build` would refuse such a placement.
    """
    if limits is None or limits.loadables_per_core == Limits.loadables_per_core:
        return replace(limits or Limits(), loadables_per_core=subgraphs_per_core(platform, models))
    require_loadables(platform, limits.loadables_per_core, models)
    return limits


def require_loadables(platform: Platform, per_core: int, models: int = 1) -> None:
    """Raises UsageError if the release takes fewer loadables on one core, of so many models together."""
    cap, rule = subgraphs_per_core(platform, models), CAP_RULE if models == 1 else IN_USE_RULE
    if cap and per_core > cap:
        raise UsageError(
            f"TensorRT {platform.release.trt_text} takes {cap} loadables on one DLA core, not {per_core}",
            where="loadables_per_core",
            allowed=f"1 to {cap}",
            hint=f"`edgedla explain {rule}` shows the sources",
        )


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
        borders: formats of network inputs and outputs, see `border_format`.

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
    any_core = any(d != GPU for d in devices)
    loadable = costs.loadable() if any_core else Cost()
    for m, model in enumerate(models):
        network = priced(model.graph, costs)
        units = network.units
        graphs.append(units)
        failing.append(thrown_out(model, units, use_unknown))
        choices.append(network.choices)
        legal = legal_units(model, units, use_unknown)
        maker = ItemMaker(model, m, network, devices, loadable, costs.precision, use_unknown)
        operators = tuple(whole_operators(model, network, legal))
        members_of = network.orders.get(operators)
        if members_of is None:
            members_of = network.orders[operators] = tuple(in_order(units, operators))
        own = [maker.item(members, all(legal[u] for u in members)) for members in members_of]
        key = (m, len(items), any_core, members_of, str(borders))
        if key not in network.edges:
            network.edges[key] = _edges(model.graph, network, len(items), members_of, own, costs, any_core, borders)
        items += own
        units_by_item += members_of
        flows += network.edges[key][0]
        links += network.edges[key][1]
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
        structure_spread=STRUCTURE_SPREAD[costs.precision],
        choices=tuple(choices) if any(choices) else (),
    )


def whole_operators(model: Model, network: Priced, legal: Sequence[bool]) -> List[Tuple[int, ...]]:
    """Units by item: an operator that TensorRT fuses (Conv + ReLU + Add) is one item if all its units have the same devices.

    A unit joins the reader of its output when the two are linked in one operator or run in the passes of one loop, nothing else
    reads the output, and both have the same legality, pin and batch. Items are in topological order, by their last unit.
    """
    units = network.units.units
    # Unit -> the unit that it joined, or itself; the end of that chain is the item.
    joins = list(range(len(units)))

    def item(u: int) -> int:
        while joins[u] != u:
            joins[u] = u = joins[joins[u]]
        return u

    def pins(u: int) -> Tuple[Optional[str], ...]:
        return tuple(sorted({model.pins.get(i) for i in units[u].layers}, key=str))

    for a, b in (*network.links, *(pair for pair in network.in_loops if legal[pair[0]])):
        alike = legal[a] == legal[b] and units[a].batch == units[b].batch
        if alike and (not model.pins or pins(a) == pins(b)):
            joins[item(a)] = item(b)
    item_of = [item(u) for u in range(len(units))]
    for loop in network.loops:
        last = item_of[loop[-1]]
        for u in loop:
            item_of[u] = last
    members: Dict[int, List[int]] = {}
    for u, k in enumerate(item_of):
        members.setdefault(k, []).append(u)
    return sorted((tuple(m) for m in members.values()), key=lambda m: m[-1])


def _edges(
    graph: LayerGraph,
    network: Priced,
    first: int,
    members_of: Sequence[Sequence[int]],
    items: Sequence[Item],
    costs: CostModel,
    any_core: bool,
    borders: Borders,
) -> Tuple[Sequence[Flow], Sequence[Link]]:
    """The flows and links of one network's items, of which `first` is the first one's index in the problem."""
    units = network.units
    item_of = {u: first + k for k, members in enumerate(members_of) for u in members}
    layers_of = {first + k: item.layers for k, item in enumerate(items)}
    model = items[0].model if items else 0
    flows = [
        _repeated(flow, layers_of, graph, network.skipped)
        for flow in _flows(graph, model, units, item_of, costs, any_core, borders)
    ]
    links: List[Link] = []
    for (producer, consumer), by_kind in sorted(network.layer_costs.separations.items()):
        ends = [item_of[units.unit_of[i]] for i in (producer, consumer) if i in units.unit_of]
        if len(ends) == 2 and ends[0] != ends[1]:
            links.append(Link(ends[0], ends[1], by_kind))
    return flows, links


def _repeated(flow: Flow, layers_of: Mapping[int, Sequence[int]], graph: LayerGraph, skipped: FrozenSet[int]) -> Flow:
    """The flow with the costs of a frame: it crosses as often as its tensor is made, and not at all in a branch that does not run."""
    reading = [i for item in flow.consumers for i in layers_of[item]]
    producer = None if flow.producer is None else graph.producer(flow.name)
    passes = 1 if producer is None else times_made(graph, producer)
    if producer in skipped or (reading and not flow.is_output and skipped.issuperset(reading)):
        passes = 0
    if passes == 1:
        return flow
    return replace(flow, costs={ends: cost.scaled(passes) for ends, cost in flow.costs.items()})


def _flows(
    graph: LayerGraph, m: int, units: UnitGraph, item_of: Mapping[int, int], costs: CostModel, any_core: bool, borders: Borders
) -> List[Flow]:
    readers: Dict[Tuple[Optional[int], str], List[int]] = {}
    for u, unit in enumerate(units.units):
        for name in unit.network_inputs:
            readers.setdefault((None, name), []).append(item_of[u])
        for producer, name in unit.inputs:
            # The state that a loop passes to its next step stays in the loop.
            if item_of[producer] != item_of[u]:
                readers.setdefault((item_of[producer], name), []).append(item_of[u])
    outputs = _written_outputs(graph, units, graph.outputs)
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


def border_format(borders: Borders, tensor: str, side: str, precision: str) -> Optional[str]:
    """TensorRT's name of the format of one network input or output; None for the default, LINEAR.

    Args:
        side: "inputs" or "outputs".

    Raises:
        UsageError: an unknown format.
    """
    text = _asked(borders, tensor, side)
    if not text or text.upper() == "LINEAR":
        return None
    # trtexec writes int8:chw32.
    name = text.rpartition(":")[2].strip().upper()
    if name == "DLA" or (side == "outputs" and _in_fp16(text)):
        return own_format(precision)
    if name not in FORMATS:
        raise UsageError(f"unknown format {text!r}", where="borders", allowed="linear, dla, " + ", ".join(FORMATS))
    return name


def fp16_outputs(graph: LayerGraph, borders: Borders, precision: str) -> FrozenSet[str]:
    """The tensors that an INT8 engine shall hand out in FP16, in a format that the DLA writes itself: `fp16:chw16`."""
    asked = [name for name in graph.outputs if precision == "int8" and _in_fp16(_asked(borders, name, "outputs"))]
    return _written_outputs(graph, fuse(graph), asked) if asked else frozenset()


def _asked(borders: Borders, tensor: str, side: str) -> str:
    return (borders or "") if not isinstance(borders, Mapping) else borders.get(tensor, borders.get(side, ""))


def _in_fp16(text: str) -> bool:
    kind, _, name = text.lower().partition(":")
    return kind.strip() == "fp16" and (name.strip() or "dla").upper() in {"DLA", *NATIVE_FORMATS["fp16"]}


def _transitions(
    costs: CostModel, tensor: Tensor, input_format: Optional[str], handed_out: Optional[str]
) -> Mapping[Tuple[str, str], Cost]:
    return {
        ("GPU", "DLA"): costs.transition(tensor, "GPU", "DLA0", source_format=input_format),
        ("DLA", "GPU"): costs.transition(tensor, "DLA0", "GPU", target_format=handed_out),
        ("DLA", "DLA"): costs.transition(tensor, "DLA0", "DLA1"),
    }


def _written_outputs(graph: LayerGraph, units: UnitGraph, outputs: Iterable[str]) -> FrozenSet[str]:
    """The tensors that become these network outputs; after a folded layer (a final Flatten) it is the tensor that the layer reads."""
    written = {name for unit in units.units for name in unit.outputs}
    names = set()
    for name in outputs:
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


def _slowdown(items: Sequence[Item], devices: Tuple[str, ...], costs: CostModel) -> Mapping[FrozenSet[str], Mapping[str, float]]:
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
