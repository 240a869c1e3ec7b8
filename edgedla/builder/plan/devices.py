"""The device of every layer: prediction, placement, and what was set by hand."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Tuple

from edgedla.builder.request import PlanOptions
from edgedla.errors import UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.named import no_such_layer
from edgedla.placement.problem.pins import layers_like
from edgedla.regions import CheckReport, Placed
from edgedla.rules.verdict import Support
from edgedla.vocabulary import GPU


def _devices(graph: LayerGraph, report: CheckReport, mode: str, options: PlanOptions) -> List[str]:
    """Device of each layer. Folded layers go where their own verdict allows, so that they do not split a subgraph."""
    core = core_of(options)
    by_hand = {**options.placed, **by_name(options.devices, graph, "devices")}
    devices = []
    for layer, layer_report in zip(graph.layers, report.layers):
        on_dla = mode == "standalone" or layer_report.placed is Placed.DLA
        on_dla = on_dla or (layer_report.placed is Placed.FOLDED and layer_report.support is Support.DLA)
        on_dla = on_dla or (options.allow_unknown and layer_report.support is Support.UNKNOWN)
        chosen = by_hand.get(layer.name)
        device = (core if on_dla else GPU) if chosen is None else (core if chosen == "DLA" else chosen)
        if device not in (GPU, "DLA0", "DLA1"):
            raise UsageError(f"unknown device {device!r}", where=layer.name, allowed="GPU, DLA, DLA0, DLA1")
        devices.append(device)
    return devices


def core_of(options: PlanOptions) -> str:
    """The core for DLA layers without one: the placement's, if the placement uses a single core."""
    placed = {d for d in options.placed.values() if d != GPU}
    return placed.pop() if len(placed) == 1 else f"DLA{options.dla_core}"


def by_name(by_pattern: Mapping[str, str], graph: LayerGraph, where: str) -> Dict[str, str]:
    """`by_pattern` by layer name; `*` in a name matches any text. Later entries win, as in trtexec.

    Raises:
        UsageError: a name fits no layer.
    """
    by_layer: Dict[str, str] = {}
    for pattern, value in by_pattern.items():
        fits = layers_like(graph, pattern)
        if not fits:
            raise no_such_layer(graph, pattern, where)
        by_layer.update((graph.layers[i].name, value) for i in fits)
    return by_layer


def devices_of(graph: LayerGraph, options: PlanOptions) -> Tuple[Optional[str], ...]:
    """The device of every layer as placed or set by hand; None for a layer in neither (it is folded)."""
    by_hand = by_name(options.devices, graph, "devices")
    devices: List[Optional[str]] = []
    for layer in graph.layers:
        placed = options.placed.get(layer.name)
        device = by_hand.get(layer.name, placed)
        if device == "DLA":
            device = placed if placed not in (None, "GPU") else core_of(options)
        if device not in (None, "GPU", "DLA0", "DLA1"):
            raise UsageError(f"unknown device {device!r}", where=layer.name, allowed="GPU, DLA, DLA0, DLA1")
        devices.append(device)
    return tuple(devices)
