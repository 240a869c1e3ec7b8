"""Pins of layers to devices: trtexec's --layerDeviceTypes, and whether the rules allow them."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from edgedla.errors import UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.named import no_such_layer
from edgedla.placement.problem.loops import loop_pieces
from edgedla.placement.problem.model import Model, legal_units, why_not
from edgedla.regions.fusions import fuse
from edgedla.vocabulary import DEVICES, GPU

#: Devices of pins. trtexec knows GPU and DLA; DLA0 and DLA1 are edgedla's.
PIN_DEVICES: Tuple[str, ...] = (GPU, "DLA", "DLA0", "DLA1")
#: Default `where` of errors.
OPTION = "--layerDeviceTypes"


def parse_pins(texts: Iterable[str], where: str = OPTION) -> Tuple[Tuple[str, str], ...]:
    """`conv1:DLA,*:GPU` as trtexec writes it -> (("conv1", "DLA"), ("*", "GPU")).

    Names may hold colons; a name in quotes may hold commas. `*` in a name matches any text.

    Raises:
        UsageError: another form, or an unknown device.
    """
    parsed: List[Tuple[str, str]] = []
    for text in texts:
        for part in re.findall(r"""(?:"[^"]*"|'[^']*'|[^,])+""", text):
            name, colon, device = part.strip().rpartition(":")
            name = name.strip()
            if len(name) >= 2 and name[0] == name[-1] and name[0] in "'\"":
                name = name[1:-1]
            if not colon or not name or device.strip().upper() not in PIN_DEVICES:
                raise UsageError(
                    f"{part!r} is not a pin",
                    where=where,
                    allowed="layer:GPU, layer:DLA, several separated by commas; * in a layer's name matches any text",
                )
            parsed.append((name, device.strip().upper()))
    return tuple(parsed)


def resolve_pins(graph: LayerGraph, pins: Sequence[Tuple[str, str]], strict: bool = True, where: str = OPTION) -> Dict[int, str]:
    """Device by layer index. An exact name wins over a pattern, a longer pattern over a shorter one, the later over
    the earlier.

    A name is a TensorRT layer's. If there is no such layer, it means the layers of the ONNX node with this name.

    Args:
        strict: a pin that matches nothing is an error.
        where: the option or argument that an error names.

    Raises:
        UsageError: a pin matches no layer.
    """
    matches: Dict[int, Tuple[Tuple[int, int], str]] = {}
    for pattern, device in pins:
        hits = layers_like(graph, pattern)
        if not hits and strict:
            raise no_such_layer(graph, pattern, where, nodes=True)
        weight = (1, 0) if is_name(graph, pattern) else (0, len(pattern))
        for i in hits:
            if i not in matches or matches[i][0] <= weight:
                matches[i] = (weight, device)
    return {i: device for i, (_, device) in sorted(matches.items())}


def pins_by_name(graph: LayerGraph, pins: Sequence[Tuple[str, str]]) -> Dict[int, str]:
    """As `resolve_pins`, of the pins without a pattern alone: these are kept or refused."""
    return resolve_pins(graph, [p for p in pins if is_name(graph, p[0])], strict=False)


def is_name(graph: LayerGraph, text: str) -> bool:
    """False for a pattern. TensorRT itself writes a star into names: `(Unnamed Layer* 7) [ElementWise]`."""
    return "*" not in text or any(text in (layer.name, layer.onnx_node) for layer in graph.layers)


def layers_like(graph: LayerGraph, pattern: str) -> List[int]:
    """Indices of the layers of this name, or whose name fits a pattern with `*`; without any, those of such an ONNX node."""
    if is_name(graph, pattern):
        named = [layer.index for layer in graph.layers if layer.name == pattern]
        return named or [layer.index for layer in graph.layers if layer.onnx_node == pattern]
    # fnmatch would read the brackets of names such as `conv[0]` as classes.
    expression = re.compile(".*".join(re.escape(p) for p in pattern.split("*")), re.DOTALL)
    by_layer = [layer.index for layer in graph.layers if expression.fullmatch(layer.name)]
    return by_layer or [layer.index for layer in graph.layers if expression.fullmatch(layer.onnx_node)]


def check_pins(
    model: Model, devices: Tuple[str, ...], use_unknown: bool, defaults: Mapping[int, bool], where: str = "pins"
) -> Dict[int, str]:
    """The pins that can be kept, by layer index.

    Args:
        devices: the devices that may be used.
        defaults: layers whose pin comes from a pattern. If a rule forbids such a pin, it is dropped, like TensorRT's GPU
            fallback does. A pin by name is kept or refused.
        where: the argument that an error names.

    Raises:
        UsageError: a layer is pinned to a DLA core against a rule (named in the message), to a device that may not be
            used, or differently from the layers that TensorRT fuses it with.
    """
    if not model.pins:
        return {}
    units = fuse(model.graph)
    legal = legal_units(model, units, use_unknown)
    legal_pins: Dict[int, str] = {}
    pieces = loop_pieces(model.graph, units)
    for u, (unit, is_legal) in enumerate(zip(units.units, legal)):
        pins = {i: model.pins[i] for i in unit.layers if i in model.pins}
        exact = {i: p for i, p in pins.items() if not defaults.get(i, False)}
        chosen = exact or pins
        if not chosen:
            continue
        if len(set(chosen.values())) > 1:
            pins_text = ", ".join(f"{model.graph.layers[i].name}:{p}" for i, p in sorted(chosen.items()))
            raise UsageError(
                f"TensorRT fuses these layers into one, so they share a device: {pins_text}",
                where=where,
                hint="pin all of them to one device, or only one of them",
            )
        layer, device = next(iter(sorted(chosen.items())))
        name = model.graph.layers[layer].name
        if device != GPU and not is_legal:
            if not exact:
                continue
            piece = ", with the whole loop around it" if u in pieces else ""
            raise UsageError(
                f"{name} is pinned to {device}, but the DLA may not run it{piece}: "
                f"{why_not(model, pieces.get(u, unit), use_unknown)}",
                where=where,
                hint="Pin it to GPU, or change the layer; `edgedla check` shows its rules.",
            )
        if device not in devices and not (device == "DLA" and len(devices) > (GPU in devices)):
            raise UsageError(
                f"{name} is pinned to {device}, which may not be used here",
                where=where,
                allowed=", ".join(d for d in DEVICES if d in devices),
            )
        legal_pins.update({i: device for i in unit.layers})
    return legal_pins
