"""Adapts scales to the DLA: equal scales where it requires them, and ranges from rules for tensors without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Container, Dict, List, Mapping, Optional, Tuple

from edgedla.graph import LayerGraph
from edgedla.graph.layer import Layer
from edgedla.quantization.scale_rules import ScaleRule, scale_rules
from edgedla.targets import Platform

MEASURED, UNIFIED, MOVED = "measured", "unified", "moved"


@dataclass(frozen=True)
class ScaleChange:
    """A range that differs from the measured one.

    Attributes:
        tensor: its name. rule: id in rules/int8_scales.yaml. layer: the layer that the rule was applied to.
        before: the measured |x| maximum or threshold; None if there was none. after: the new range.
    """

    tensor: str
    rule: str
    layer: str
    before: Optional[float]
    after: float

    @property
    def origin(self) -> str:
        """\"unified\" if the tensor had a range before, "moved" if it had none."""
        return MOVED if self.before is None else UNIFIED


@dataclass(frozen=True)
class Scales:
    """Ranges of the tensors of one network, and the changes made by rules."""

    absmax: Mapping[str, float]
    changes: Tuple[ScaleChange, ...] = ()


def dla_scales(
    graph: LayerGraph,
    absmax: Mapping[str, float],
    platform: Optional[Platform] = None,
    on_dla: Optional[Callable[[int], bool]] = None,
    equal: bool = True,
) -> Scales:
    """The ranges of this graph's tensors, completed and equalised by rules/int8_scales.yaml.

    Args:
        absmax: ONNX tensor name -> range; scale = range / 127.
        platform: selects the rules; None takes all of them.
        on_dla: layer index -> True if the layer runs on the DLA in INT8. Only these need equal scales. None: all layers.
        equal: False leaves every tensor its own range (rules/numerics.yaml, int8-equal-scales).
    """
    given = {name: float(value) for name, value in absmax.items() if name in graph.tensors}
    filled = _fill(graph, given, platform)
    alike = _equalise(graph, {**given, **{c.tensor: c.after for c in filled}}, platform, on_dla) if equal else []
    after = {**given, **{c.tensor: c.after for c in filled}, **{c.tensor: c.after for c in alike}}
    # A tensor that is filled in and then equalised is listed once, with its final range.
    changes = {c.tensor: c for c in filled}
    for change in alike:
        first = changes.get(change.tensor)
        changes[change.tensor] = (
            change if first is None else ScaleChange(first.tensor, first.rule, first.layer, None, change.after)
        )
    return Scales(after, tuple(changes[name] for name in sorted(changes)))


def _fill(graph: LayerGraph, given: Mapping[str, float], platform: Optional[Platform]) -> List[ScaleChange]:
    rules = [r for r in scale_rules().missing if r.holds(platform)]
    ranges: Dict[str, float] = dict(given)
    last = {layer.onnx_node: ranges[t] for layer in graph.layers for t in layer.outputs if t in ranges}
    changes: List[ScaleChange] = []

    def fill(tensor: str, value: Optional[float], rule: ScaleRule, layer: Layer) -> None:
        if value is not None and value > 0 and tensor not in ranges and not graph.tensors[tensor].is_constant:
            ranges[tensor] = value
            changes.append(ScaleChange(tensor, rule.id, layer.name, None, value))

    def forward() -> None:
        for rule in rules:
            for layer in graph.layers:
                if rule.fits(layer):
                    for tensor in layer.outputs:
                        fill(tensor, _forward(graph, rule, layer, ranges, last), rule, layer)

    # Rule by rule, so that an operator's own rule comes before the guess by ONNX node. Repeated at the end, because a
    # range that came back through a data-moving layer or a product may now fill another layer's output.
    forward()
    for rule in rules:
        if rule.origin in ("input", "product"):
            for layer in reversed(graph.layers):
                if rule.fits(layer) and layer.outputs and layer.outputs[0] in ranges:
                    _fill_inputs(graph, rule, layer, ranges, fill)
    forward()
    return changes


def _forward(
    graph: LayerGraph, rule: ScaleRule, layer: Layer, ranges: Mapping[str, float], last: Mapping[str, float]
) -> Optional[float]:
    """The range that the rule gives to an output of the layer; None if a range that the rule needs is missing."""
    if rule.origin == "bound":
        return rule.bound
    if rule.origin == "node":
        return last.get(layer.onnx_node) if layer.onnx_node else None
    operands = [ranges.get(t.name) for t in graph.activations(layer)]
    if rule.origin == "input":
        return operands[0] if operands else None
    if len(operands) != 2 or operands[0] is None or operands[1] is None:
        return None
    return operands[0] * operands[1]


def _fill_inputs(
    graph: LayerGraph,
    rule: ScaleRule,
    layer: Layer,
    ranges: Mapping[str, float],
    fill: Callable[[str, Optional[float], ScaleRule, Layer], None],
) -> None:
    inputs = [t.name for t in graph.activations(layer)]
    missing = [t for t in inputs if t not in ranges]
    if len(missing) != 1:
        return
    # The input of a pooling or activation may have a larger range than its output, so only data-moving layers pass a
    # range backward.
    if rule.origin == "input" and layer.type not in ("POOLING", "ACTIVATION"):
        fill(missing[0], ranges[layer.outputs[0]], rule, layer)
    elif rule.origin == "product" and len(inputs) == 2:
        other = next(ranges[t] for t in inputs if t in ranges)
        fill(missing[0], ranges[layer.outputs[0]] / other, rule, layer)


def _equalise(
    graph: LayerGraph, ranges: Mapping[str, float], platform: Optional[Platform], on_dla: Optional[Callable[[int], bool]]
) -> List[ScaleChange]:
    changes = []
    for group in equal_groups(graph, ranges, platform, on_dla):
        top = max(ranges[n] for n in group)
        changes += [ScaleChange(n, *why, ranges[n], top) for n, why in group.items() if ranges[n] != top]
    return changes


def copies(graph: LayerGraph) -> Dict[str, str]:
    """Tensor -> the tensor whose values it holds, moved or repeated, where `edgedla fix` enlarged or reshaped it."""
    of: Dict[str, str] = {}
    for layer in graph.layers:
        inputs = graph.activations(layer)
        repeats = layer.type == "RESIZE" and layer.params.get("mode") == "NEAREST"
        if len(inputs) == 1 and (repeats or layer.type in ("SHUFFLE", "IDENTITY")):
            source = inputs[0].name
            of.update(dict.fromkeys(layer.outputs, of.get(source, source)))
    return of


def equal_groups(
    graph: LayerGraph, ranges: Container[str], platform: Optional[Platform] = None, on_dla: Optional[Callable[[int], bool]] = None
) -> List[Dict[str, Tuple[str, str]]]:
    """Tensors that share one scale. Uses union-find, because rules of two layers may name the same tensor.

    Args:
        ranges: the tensors that have a scale.

    Returns:
        Per group: tensor -> (rule, layer) that put it into the group.
    """
    parent: Dict[str, str] = {}
    why: Dict[str, Tuple[str, str]] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for rule in (r for r in scale_rules().equal if r.holds(platform)):
        for layer in graph.layers:
            if not rule.fits(layer) or (on_dla is not None and not on_dla(layer.index)):
                continue
            names = [t.name for t in graph.activations(layer) if t.name in ranges]
            names += [t for t in layer.outputs if t in ranges and rule.tensors == "inputs-and-outputs"]
            for name in names:
                why.setdefault(name, (rule.id, layer.name))
                parent[root(name)] = root(names[0])
    groups: Dict[str, Dict[str, Tuple[str, str]]] = {}
    for name in parent:
        groups.setdefault(root(name), {})[name] = why[name]
    return list(groups.values())
