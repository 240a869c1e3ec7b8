"""Whether a build without GPU fallback would succeed, and which layer TensorRT's error would name first."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.regions.fusions import INNER_IN, fuse
from edgedla.regions.prediction import predict
from edgedla.regions.report import StrictResult
from edgedla.regions.values import Cause, LayerPrediction, Placed, Prediction
from edgedla.rules.verdict import Effect, Finding, Support, Verdict
from edgedla.targets import Platform


class KnownAs(NamedTuple):
    """A prediction that assumes every unknown layer on the DLA.

    Attributes:
        rules: layer name -> the rule that leaves the layer unknown.
    """

    prediction: Prediction
    rules: Mapping[str, str]


def check_strict(
    graph: LayerGraph,
    prediction: Prediction,
    platform: Platform,
    mode: str,
    io_findings: Sequence[Finding] = (),
    known: Optional[KnownAs] = None,
) -> StrictResult:
    """The answer for mode "strict" (no GPU fallback) or "standalone" (a loadable without TensorRT around it).

    TensorRT stops at the first layer of the network that its per-layer check refuses. Constants are layers too, and it
    refuses them: with fallback it folds them, without it they are fatal (YOLO11 build logs name the attention's scale).
    Only if the per-layer check passes does the build reach the second look and the reshapes that TensorRT adds.

    An unknown layer does not fail the build by itself: the build is known to fail only if it also fails with every
    unknown layer on the DLA.

    Args:
        io_findings: what the rules say of the network's inputs and outputs (RuleSet.check_io).
        known: the prediction with every unknown layer on the DLA, and what makes each unknown; None without unknown
            layers.
    """
    if not platform.has_dla:
        reason = platform.no_dla or "no DLA"
        return StrictResult(mode, None if platform.dla_unknown else False, "", (), (reason,))
    best = prediction if known is None else known.prediction
    refused = list(_refused(graph, best))
    later = [
        (graph.layers[p.index].name, p.reason)
        for p in best.layers
        if p.placed is Placed.GPU and p.cause not in (Cause.RULE, Cause.UNKNOWN)
    ]
    later += _added_reshapes(graph, best)
    unknown = [(graph.layers[p.index].name, p.reason) for p in prediction.layers if _is_open(p)]
    unknown += [(n.name, n.reason) for n in prediction.nodes if n.cause is Cause.UNKNOWN and not n.layers]
    rejected = [f for f in io_findings if f.effect is Effect.REJECT]
    messages = [f"{name}: {reason}" for name, reason in refused + later + unknown]
    messages += [f.message for f in io_findings if f.effect in (Effect.REJECT, Effect.UNKNOWN)]
    regions = len(best.kept)
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
        unknowns=_unknowns(unknown, io_findings, known),
    )


def known_as(
    graph: LayerGraph, verdicts: Sequence[Verdict], prediction: Prediction, platform: Platform, precision: str
) -> Optional[KnownAs]:
    """The prediction with every unknown layer on the DLA; None if no layer is unknown."""
    if not any(_is_open(p) for p in prediction.layers):
        return None
    rules: Dict[str, str] = {}
    for verdict in verdicts:
        for finding in (*verdict.findings, *verdict.validation):
            if finding.effect is Effect.UNKNOWN:
                rules.setdefault(verdict.layer, finding.rule)
    return KnownAs(predict(graph, [_on_dla(v) for v in verdicts], platform, precision, "strict"), rules)


def _is_open(layer: LayerPrediction) -> bool:
    """Whether the layer is unknown. Layers that TensorRT removes later count: the per-layer check comes before removals."""
    return layer.cause is Cause.UNKNOWN or (layer.placed is Placed.FOLDED and layer.support is Support.UNKNOWN)


def _on_dla(verdict: Verdict) -> Verdict:
    support = Support.DLA if verdict.support is Support.UNKNOWN else verdict.support
    validation = tuple(f for f in verdict.validation if f.effect is not Effect.UNKNOWN)
    return replace(verdict, support=support, validation=validation)


def _unknowns(layers: Sequence[Tuple[str, str]], io_findings: Sequence[Finding], known: Optional[KnownAs]) -> Tuple[str, ...]:
    """Everything that leaves the answer unknown: "POOL008 at avgpool"."""
    rules = {} if known is None else known.rules
    open_layers = [f"{rules[name]} at {name}" if name in rules else name for name, _ in layers]
    return (*open_layers, *(f"{f.rule} at {f.layer}" for f in io_findings if f.effect is Effect.UNKNOWN))


def _refused(graph: LayerGraph, prediction: Prediction) -> Iterator[Tuple[str, str]]:
    """(name, reason) of layers and constants that the per-layer check refuses, in network order."""
    seen = set()
    # If the DLA runs Q/DQ, then with their constants: a test of NVIDIA's builds such a model without fallback.
    runs = any(r == "quantizes" and prediction.layers[i].support is Support.DLA for i, r in graph.qdq_roles.items())
    roles = graph.qdq_roles if runs else {}
    for i in _in_network_order(graph, runs):
        if isinstance(i, str):
            yield i, "a build-time constant: TensorRT refuses constant layers when there is no GPU to fold them for"
            continue
        layer, p = graph.layers[i], prediction.layers[i]
        for tensor in graph.input_tensors(layer):
            name = tensor.constant_of or tensor.name
            scaled = roles.get(i) == "quantizes" or (roles.get(i) == "between" and tensor.constant_of is not None)
            if tensor.is_constant and not scaled and name not in seen:
                seen.add(name)
                yield name, f"a constant operand of {layer.name}: TensorRT refuses constant layers without fallback"
        if p.support is Support.GPU:
            early = ", which comes before TensorRT removes what no output depends on" if i in graph.unread else ""
            why = p.reason if p.cause is Cause.RULE else f"refused by the per-layer check{early}"
            yield layer.name, why
    for name in graph.outputs:
        if graph.tensors[name].is_constant and (graph.tensors[name].constant_of or name) not in seen:
            yield name, "a constant output of the network: TensorRT refuses constant layers without fallback"


def _in_network_order(graph: LayerGraph, runs_qdq: bool) -> Iterator[int | str]:
    """Layer indices; names of nodes that are only constants come before the layers that follow them, without DQ if the DLA runs it."""
    constants: Dict[int, List[str]] = {}
    waiting: List[str] = []
    for node in graph.nodes:
        if node.layers:
            constants.setdefault(min(node.layers), []).extend(waiting)
            waiting = []
        elif node.constant_layers and not (runs_qdq and "DEQUANTIZE" in node.constant_layers):
            waiting.append(node.name)
    for layer in graph.layers:
        yield from constants.get(layer.index, ())
        yield layer.index


def _added_reshapes(graph: LayerGraph, prediction: Prediction) -> List[Tuple[str, str]]:
    """(name, reason) of reshapes that TensorRT adds without an ONNX node, and that only the GPU runs.

    `reshape_before_X` and `reshape_after_X` come with the convolution that a MATRIX_MULTIPLY becomes. Around any other
    DLA layer with fewer than 4 dims TensorRT puts a shuffle (`At least one shuffle layer will be inserted which cannot
    run on DLA`, logs of 8.5 to 10.3).
    """
    reshapes = []
    for unit in fuse(graph).units:
        if unit.reshape_of and not unit.layers:
            name = graph.layers[unit.reshape_of[0]].name
            side = "before" if unit.outputs[0].endswith(INNER_IN) else "after"
            reshapes.append((f"reshape_{side}_{name}", f"added to run {name} as a convolution; it changes the rank"))
        if unit.is_shuffle or len(unit.layers) != 1 or prediction.layers[unit.layers[0]].placed is not Placed.DLA:
            continue
        layer = graph.layers[unit.layers[0]]
        ranks = [t.rank for t in graph.activations(layer) if t.rank < 4]
        if ranks and layer.type != "MATRIX_MULTIPLY":
            reshapes.append((layer.name, f"rank {min(ranks)} is below 4: the reshapes added around it run on the GPU"))
    return reshapes
