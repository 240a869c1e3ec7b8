"""TensorRT's real placement by layers of the network, from a build log or an engine's inspector output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

from edgedla.records.build_log import FOLDED_TYPES, BuildLog
from edgedla.records.engine_info import EngineInfo
from edgedla.records.foreign_node import ForeignNode, names_in

DLA, GPU = "dla", "gpu"


@dataclass(frozen=True)
class Real:
    """Devices by layer of the network, as far as the source tells.

    Attributes:
        source: "build log" or "engine inspector".
        devices: layer name -> "dla" or "gpu". A missing layer is not in the engine (folded, fused away), or the source
            does not tell its device.
        inferred: layers whose device follows from a refusal or from a node's first and last layer, not from a list that
            names them; such a layer may also have been folded away.
        refused: layer that TensorRT's first look refused -> logged reason ("" if none).
        validation: layer that its second look refused -> reason.
        checked: the source shows the first look at every layer, so a layer that it does not name has passed.
        loadables: names of the DLA nodes.
        notes: what is unknown, and why.
    """

    source: str
    devices: Mapping[str, str]
    refused: Mapping[str, str] = field(default_factory=dict)
    validation: Mapping[str, str] = field(default_factory=dict)
    checked: bool = False
    loadables: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()
    inferred: FrozenSet[str] = frozenset()


def real_of_log(log: BuildLog, names: Sequence[str]) -> Real:
    """The placement in a build log.

    The members of a node named first...last come from the log if it lists them (verbose 10.x). Otherwise they are the
    layers between the two that no GPU list names, if the log has a final GPU list.

    Args:
        names: the network's layers in TensorRT's order.
    """
    place = _Places(names)
    gpu_named = [layer.name for layer in log.gpu_layers]
    gpu_named += [layer.name for layer in log.engine_layers if layer.type not in ("DLA", "Reformat")]
    for name in gpu_named:
        place.put(names_in(name), GPU)
    for name in [r.layer for r in log.validation] + list(log.dropped):
        place.put(names_in(name), GPU)
    place.infer([r.layer for r in log.refused if r.type not in FOLDED_TYPES], GPU)
    ranges = []
    for loadable in log.loadables:
        if loadable.layers:
            place.put([n for layer in loadable.layers for n in names_in(layer.name)], DLA)
        elif loadable.node.members is not None:
            place.put([n for member in loadable.node.members for n in names_in(member)], DLA)
        else:
            ranges.append(loadable.node)
    # A GPU list printed before the cap lacks the layers that the cap moved to the GPU.
    place.fill(ranges, complete=bool(gpu_named) and (log.lists_are_final or bool(log.engine_layers)))
    if log.dla_layers and not log.loadables:
        place.notes.append(
            "the log lists the layers before TensorRT forms subgraphs and limits them per core, but no final nodes: "
            "it does not say which of them run on the DLA"
        )
    if not log.has_dla:
        place.notes.append("the log says nothing about the DLA")
    if log.all_refused:
        place.notes.append(f"all layers went to the GPU: {log.all_refused}")
    return Real(
        source="build log",
        devices=place.devices,
        refused={r.layer: r.reason for r in log.refused},
        validation={r.layer: r.reason for r in log.validation},
        checked=bool(log.refused or log.dla_layers) and log.fatal is None,
        loadables=tuple(loadable.node.name for loadable in log.loadables),
        notes=tuple(place.notes),
        inferred=frozenset(place.inferred),
    )


def real_of_engine(info: EngineInfo, names: Sequence[str]) -> Real:
    """The placement in an engine's inspector output; members of a DLA node come from its ONNX metadata if it has any."""
    place = _Places(names)
    for layer in info.layers:
        if layer.device == GPU.upper() and not layer.is_reformat and layer.node is None:
            place.put(layer.network_layers, GPU)
        elif layer.device == GPU.upper() and layer.node is not None:
            place.put(layer.onnx_nodes or layer.network_layers, GPU)
    ranges: List[ForeignNode] = []
    for layer in info.dla_nodes:
        if layer.node is None:
            place.put(layer.network_layers, DLA)
        elif layer.onnx_nodes or layer.node.members is not None:
            members = layer.onnx_nodes or layer.node.members or ()
            place.put([n for member in members for n in names_in(member)], DLA)
        else:
            ranges.append(layer.node)
    place.fill(ranges, complete=True)
    if info.undecided:
        place.notes.append(
            f"{len(info.undecided)} ForeignNodes have no type, so the device that runs them is unknown; build "
            "with --profilingVerbosity=detailed"
        )
    return Real(
        source="engine inspector",
        devices=place.devices,
        loadables=tuple(layer.name for layer in info.dla_nodes),
        notes=tuple(place.notes),
        inferred=frozenset(place.inferred),
    )


def real_of_mapping(devices: Mapping[str, Any], source: str) -> Real:
    """The placement recorded in an artifact: layer name -> GPU, DLA0 or DLA1."""
    plain = {name: DLA if str(device).upper().startswith("DLA") else GPU for name, device in devices.items()}
    return Real(source=source, devices=plain)


class _Places:
    """Collects devices by name.

    A list that names a layer on the DLA overrides one that names it on the GPU: TensorRT lists a DLA node's layers after the
    node exists, while GPU lists may be older or name a copy beside the node. Otherwise the first list counts.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.order = {name: i for i, name in enumerate(names)}
        self.names = names
        self.devices: Dict[str, str] = {}
        self.inferred: Set[str] = set()
        self.notes: List[str] = []

    def infer(self, names: Sequence[str], device: str) -> None:
        """Adds inferred devices, which never replace listed ones."""
        for name in names:
            if name in self.order and name not in self.devices:
                self.devices[name] = device
                self.inferred.add(name)

    def put(self, names: Sequence[str], device: str) -> None:
        for name in names:
            if name in self.order and (device == DLA or name not in self.devices):
                self.devices[name] = device
                self.inferred.discard(name)

    def fill(self, nodes: Sequence[ForeignNode], complete: bool) -> None:
        missing: List[str] = []
        for node in nodes:
            begin, end = self._at(node.first, 0), self._at(node.last, -1)
            if begin is None or end is None:
                missing.append(node.name)
                continue
            self.put([self.names[begin], self.names[end]], DLA)
            if complete:
                between = self.names[min(begin, end) : max(begin, end) + 1]
                self.infer(between, DLA)
        if missing:
            self.notes.append(f"{len(missing)} nodes name layers that the model does not have, the first is {missing[0]}")
        if nodes and not complete:
            self.notes.append("the members of nodes named first...last are unknown; only those two are counted")

    def _at(self, name: str, which: int) -> Optional[int]:
        positions = [self.order[n] for n in names_in(name) if n in self.order]
        return positions[which] if positions else None
