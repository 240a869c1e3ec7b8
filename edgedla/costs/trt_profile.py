"""trtexec's --exportProfile and --exportLayerInfo as a Profile: engine layers assigned to the layers of the network."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple, Union

from edgedla.costs.layer_costs import LayerCosts
from edgedla.costs.model import CostModel
from edgedla.costs.operators import Operator, operators_of
from edgedla.costs.profile import (
    WRITTEN_BY,
    Measurement,
    Profile,
    is_profile,
    operator_signature,
    parse_profile,
    positive,
    read_json,
)
from edgedla.errors import DocumentError, UsageError
from edgedla.graph import LayerGraph
from edgedla.io.documents import described
from edgedla.records.engine_info import EngineInfo, EngineLayer, is_engine_info, parse_engine_info

PathLike = Union[str, "os.PathLike[str]"]
Times = Union[None, PathLike, Profile]


@dataclass(frozen=True)
class LayerTime:
    """One line of trtexec's profile: milliseconds averaged over the runs, and their median where it is there.

    `deviation_ms` is the standard deviation of the runs, where they are known one by one.
    """

    name: str
    average_ms: float
    median_ms: Optional[float] = None
    deviation_ms: Optional[float] = None

    @property
    def time_us(self) -> float:
        return 1000.0 * (self.average_ms if self.median_ms is None else self.median_ms)

    @property
    def spread(self) -> float:
        """From the single runs if the file has them; else the difference of average and median, the only measure it has."""
        if self.deviation_ms is not None:
            return self.deviation_ms / self.average_ms if self.average_ms > 0 else 0.0
        if self.median_ms is None or self.median_ms <= 0:
            return 0.0
        return abs(self.average_ms - self.median_ms) / self.median_ms


def with_measurements(
    model: CostModel, path: Times, graphs: Sequence[LayerGraph], layer_info: Optional[PathLike] = None
) -> CostModel:
    """The model with measured times in place of its predictions; unchanged without any.

    Args:
        path: a profile that edgedla wrote, itself or its file, or a file of trtexec's --exportProfile for one of the graphs.
        layer_info: for the latter, the file of --exportLayerInfo.

    Raises:
        DocumentError: a file is unreadable or has another form, or names no layer of these networks.
        UsageError: the profile is of another module or power mode, or there are layers of an engine without their times.
    """
    if path is None:
        if layer_info is not None:
            raise UsageError("layers of an engine without their times", where="--layer-info", allowed="with --profile")
        return model
    if isinstance(path, Profile):
        return model.with_profile(path)
    document = read_json(path)
    where = os.fspath(path)
    if is_profile(document):
        return model.with_profile(parse_profile(document, where))
    times = parse_times(document, where)
    info = parse_engine_info(read_json(layer_info), os.fspath(layer_info)) if layer_info is not None else None
    profiles: List[Profile] = []
    refused: List[DocumentError] = []
    for graph in graphs:
        try:
            profiles.append(assign(times, graph, model, info, where))
        except DocumentError as e:
            refused.append(e)
    if not profiles:
        raise refused[0]
    merged = replace(profiles[0], measurements=tuple(m for p in profiles for m in p.measurements))
    return model.with_profile(merged)


def parse_times(document: Any, where: str = "profile") -> Tuple[LayerTime, ...]:
    """The lines of trtexec's profile: `[{"count": N}, {"name": ..., "averageMs": ..., ...}, ...]`.

    Raises:
        DocumentError: it has another form, or no lines.
    """
    if not isinstance(document, list):
        description = described(document)
        if description is None:
            description = (
                "it is the engine inspector's output, for --layer-info" if is_engine_info(document) else "it is not a list"
            )
        raise DocumentError(
            f"not a profile: {description}",
            where=where,
            allowed="a list that trtexec wrote, or edgedla's cost profile",
            hint=WRITTEN_BY,
        )
    times: List[LayerTime] = []
    for i, entry in enumerate(document):
        entry_where = f"{where}: entry {i}"
        if not isinstance(entry, Mapping):
            raise DocumentError("not an object", where=entry_where)
        if "count" in entry and "name" not in entry:
            continue
        if "stage" in entry:
            raise DocumentError(
                "the profile is that of a chain's stages, and each stage names its layers anew",
                where=where,
                hint="write it with `edgedla bench CHAIN --onnx MODEL --export-profile FILE`, by layers of the whole model",
            )
        if not isinstance(entry.get("name"), str):
            raise DocumentError("the entry has no name", where=entry_where)
        median = entry.get("medianMs")
        times.append(
            LayerTime(
                entry["name"],
                positive(entry.get("averageMs"), "averageMs", entry_where),
                None if median is None else positive(median, "medianMs", entry_where),
            )
        )
    if not times:
        raise DocumentError("the profile holds no layer", where=where)
    return tuple(times)


def assign(
    times: Tuple[LayerTime, ...],
    graph: LayerGraph,
    model: CostModel,
    info: Optional[EngineInfo] = None,
    where: str = "profile",
    source: str = "trtexec",
    names: Optional[Mapping[str, str]] = None,
) -> Profile:
    """The times on the operators of the graph.

    Times of engine layers that hold several operators (a DLA node, a fused chain) are split in proportion to the model's
    prediction. Reformats and names that the graph does not have are listed in `Profile.unresolved`.

    Args:
        info: without it nothing tells which ForeignNodes run on the DLA; they stay unresolved.
        source: of the profile.
        names: of an engine that holds a part of the network: what the graph calls the engine's layers. Operators that
            are not whole in that part get no time.

    Raises:
        DocumentError: no name fits.
    """
    described = {layer.name: layer for layer in info.layers} if info else {}
    engine = [_described(t.name, described) for t in times]
    resolver = _Resolver(graph, [layer for layer in engine if layer is not None], names)
    operators = {o.leader: o for o in operators_of(graph)}
    leader_of = {i: o.leader for o in operators.values() for i in o.layers}
    costs = model.layer_costs(graph)
    summed: Dict[Tuple[int, str], Tuple[float, float]] = {}
    unresolved: List[Tuple[str, float]] = []
    for time, layer in zip(times, engine):
        members = resolver.layers(layer) if layer and layer.device and not layer.is_reformat else ()
        # A layer that is folded away belongs to no operator.
        leaders = _timed({leader_of[i] for i in members if i in leader_of}, members)
        if not leaders or layer is None or layer.device is None:
            unresolved.append((time.name, time.time_us))
            continue
        shares = _shares(leaders, set(members), operators, costs, layer.device)
        for leader, share in shares.items():
            if not resolver.holds(operators[leader].layers):
                unresolved.append((f"{time.name}: {graph.layers[leader].name}", share * time.time_us))
                continue
            before, spread = summed.get((leader, layer.device), (0.0, 0.0))
            # A split rests on the prediction, and so does the trust in its parts.
            split = costs[leader, layer.device].spread if len(leaders) > 1 else 0.0
            summed[leader, layer.device] = (before + share * time.time_us, max(spread, time.spread, split))
    if not summed:
        raise DocumentError(
            "no layer of the profile is in this network",
            where=where,
            hint="Profile an engine of the same model; for DLA nodes give --exportLayerInfo too, written with "
            "--profilingVerbosity=detailed.",
        )
    return Profile(
        target=model.platform.module.id,
        power_mode=model.power_mode,
        source=source,
        measurements=tuple(
            Measurement(
                operator_signature(graph, operators[leader]),
                model.precision,
                device,
                time_us,
                spread,
                tuple(graph.layers[i].name for i in operators[leader].layers),
            )
            for (leader, device), (time_us, spread) in sorted(summed.items())
        ),
        unresolved=tuple(unresolved),
    )


def _timed(leaders: Set[int], members: Sequence[int]) -> List[int]:
    """The operators that an engine layer's time is of: those whose leader it holds.

    Of two convolutions in front of an Add, TensorRT may run the Add with the other one than `operators_of` says. What rides
    along has hardly a time of its own. Where an engine layer holds no leader at all, it is the rest of an operator.
    """
    held = leaders & set(members)
    return sorted(held or leaders)


def _described(name: str, described: Mapping[str, EngineLayer]) -> Optional[EngineLayer]:
    """The engine layer of a profile line: by the layer info, or by its name alone."""
    if name in described:
        return described[name]
    return parse_engine_info({"Layers": [name]}).layers[0]


def _shares(
    leaders: List[int], members: Set[int], operators: Mapping[int, Operator], costs: LayerCosts, device: str
) -> Dict[int, float]:
    """Share of one time for every operator that it holds layers of, in proportion to their predicted latency."""
    predicted = {leader: sum(costs[i, device].latency_us for i in operators[leader].layers if i in members) for leader in leaders}
    whole = sum(predicted.values())
    if whole <= 0:
        return {leader: 1.0 / len(leaders) for leader in leaders}
    return {leader: p / whole for leader, p in predicted.items() if p > 0}


class _Resolver:
    """Names of engine layers to indices of network layers; with `names`, as `assign` has them, to those in it alone."""

    def __init__(self, graph: LayerGraph, engine: List[EngineLayer], names: Optional[Mapping[str, str]] = None) -> None:
        index = {layer.name: layer.index for layer in graph.layers}
        self._index = index if names is None else {own: index[whole] for own, whole in names.items()}
        self._held = set(self._index.values())
        self._of_node: Dict[str, List[int]] = {}
        for layer in graph.layers:
            if layer.index in self._held:
                self._of_node.setdefault(layer.onnx_node, []).append(layer.index)
        # A name of the form first...last does not list the layers between: they are those that no other engine layer names.
        self._named: Set[int] = set()
        for made in engine:
            if not (made.node and made.node.members is None):
                self._named.update(self._listed(made))

    def holds(self, layers: Iterable[int]) -> bool:
        return self._held.issuperset(layers)

    def layers(self, layer: EngineLayer) -> Tuple[int, ...]:
        """Indices, in order; () where no name is known."""
        if layer.node is None or layer.node.members is not None:
            return tuple(sorted(self._listed(layer)))
        ends = [i for name in (layer.node.first, layer.node.last) for i in self._layers_called(name)]
        if not ends or not self._layers_called(layer.node.first) or not self._layers_called(layer.node.last):
            return ()
        return tuple(i for i in range(min(ends), max(ends) + 1) if i in self._held and (i not in self._named or i in ends))

    def _listed(self, layer: EngineLayer) -> Set[int]:
        indices = {i for name in layer.network_layers for i in self._layers_called(name)}
        return indices or {i for node in layer.onnx_nodes for i in self._of_node.get(node, ())}

    def _layers_called(self, name: str) -> Tuple[int, ...]:
        if name in self._index:
            return (self._index[name],)
        return tuple(self._of_node.get(name, ())) if name else ()
