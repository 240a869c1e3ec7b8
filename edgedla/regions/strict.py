"""A build without GPU fallback: would it succeed, and which layer would TensorRT's error name first."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.regions.fusions import fuse
from edgedla.regions.report import StrictResult
from edgedla.regions.values import Cause, Placed, Prediction
from edgedla.rules.verdict import Effect, Finding, Support
from edgedla.targets import Platform


def check_strict(
    graph: LayerGraph,
    prediction: Prediction,
    platform: Platform,
    mode: str,
    io_findings: Sequence[Finding] = (),
) -> StrictResult:
    """The answer for mode "strict" (no GPU fallback) or "standalone" (a loadable without TensorRT around it).

    TensorRT stops at the first layer of the network that its per-layer check refuses. Constants are layers too, and
    are
    refused: with fallback they are folded, without it they are fatal (YOLO11 build logs name the attention's scale).
    Only when the per-layer check passes does the build get as far as the second look and the reshapes that it adds.

    Args:
        io_findings: what the rules say of the network's inputs and outputs (RuleSet.check_io).
    """
    if not platform.has_dla:
        reason = platform.no_dla or "no DLA"
        return StrictResult(mode, None if platform.dla_unknown else False, "", (), (reason,))
    refused = list(_refused(graph, prediction))
    later = [
        (graph.layers[p.index].name, p.reason)
        for p in prediction.layers
        if p.placed is Placed.GPU and p.cause not in (Cause.RULE, Cause.UNKNOWN)
    ]
    later += _added_reshapes(graph, prediction)
    unknown = [(graph.layers[p.index].name, p.reason) for p in prediction.layers if p.cause is Cause.UNKNOWN]
    unknown += [(n.name, n.reason) for n in prediction.nodes if n.cause is Cause.UNKNOWN and not n.layers]
    rejected = [f for f in io_findings if f.effect is Effect.REJECT]
    messages = [f"{name}: {reason}" for name, reason in refused + later + unknown]
    messages += [f.message for f in io_findings if f.effect in (Effect.REJECT, Effect.UNKNOWN)]
    regions = len(prediction.kept)
    one_region = mode != "standalone" or regions == 1
    if not one_region:
        messages.append(f"a standalone loadable holds the whole network in one region; this one has {regions}")
    passes: Optional[bool] = not (refused or later or rejected) and one_region
    if passes and (unknown or any(f.effect is Effect.UNKNOWN for f in io_findings)):
        passes = None
    # An unknown layer may be the one that TensorRT stops at, but only a known refusal can be named.
    named = refused or later
    return StrictResult(
        mode=mode,
        passes=passes,
        first_offender=named[0][0] if named else "",
        offenders=tuple(dict.fromkeys(name for name, _ in refused + later)),
        messages=tuple(messages),
        findings=tuple(io_findings),
    )


def _refused(graph: LayerGraph, prediction: Prediction) -> Iterator[Tuple[str, str]]:
    """Layers and constants that the per-layer check refuses, in network order."""
    seen = set()
    for i in _in_network_order(graph):
        if isinstance(i, str):
            yield i, "a build-time constant: TensorRT refuses constant layers when there is no GPU to fold them for"
            continue
        layer = graph.layers[i]
        for tensor in graph.input_tensors(layer):
            name = tensor.constant_of or tensor.name
            if tensor.is_constant and name not in seen:
                seen.add(name)
                yield name, f"a constant operand of {layer.name}: TensorRT refuses constant layers without fallback"
        p = prediction.layers[i]
        if p.support is Support.GPU:
            why = p.reason if p.cause is Cause.RULE else "refused by the per-layer check"
            yield layer.name, why


def _in_network_order(graph: LayerGraph) -> Iterator[int | str]:
    """Layer indices, and names of nodes that are constants altogether in front of the layers that follow them."""
    constants: Dict[int, List[str]] = {}
    waiting: List[str] = []
    for node in graph.nodes:
        if node.layers:
            constants.setdefault(min(node.layers), []).extend(waiting)
            waiting = []
        elif node.constant_layers:
            waiting.append(node.name)
    for layer in graph.layers:
        yield from constants.get(layer.index, ())
        yield layer.index


def _added_reshapes(graph: LayerGraph, prediction: Prediction) -> List[Tuple[str, str]]:
    """Reshapes that no ONNX node stands for, and that only the GPU runs.

    `reshape_before_X` and `reshape_after_X` come with the convolution that a MATRIX_MULTIPLY becomes. Around any other
    DLA layer with fewer than 4 dims TensorRT puts a shuffle (`At least one shuffle layer will be inserted which cannot
    run on DLA`, logs of 8.5 to 10.3).
    """
    found = []
    for unit in fuse(graph).units:
        if unit.reshape_of and not unit.layers:
            name = graph.layers[unit.reshape_of[0]].name
            side = "before" if unit.outputs[0].endswith("\0in") else "after"
            found.append((f"reshape_{side}_{name}", f"added to run {name} as a convolution; it changes the rank"))
        if unit.is_shuffle or len(unit.layers) != 1 or prediction.layers[unit.layers[0]].placed is not Placed.DLA:
            continue
        layer = graph.layers[unit.layers[0]]
        ranks = [t.rank for t in graph.activations(layer) if t.rank < 4]
        if ranks and layer.type != "MATRIX_MULTIPLY":
            found.append((layer.name, f"rank {min(ranks)} is below 4: the reshapes added around it run on the GPU"))
    return found
