"""From verdicts to the predicted end state: layers and ONNX nodes with their causes, regions, transitions, ranking."""

from __future__ import annotations

from typing import Sequence, Tuple

from edgedla.graph import LayerGraph, OnnxNode
from edgedla.regions.candidates import describe, failing_units, form_groups, unit_devices
from edgedla.regions.cap import apply_cap, subgraphs_per_core
from edgedla.regions.fusions import fuse
from edgedla.regions.outcomes import LayerOutcomes
from edgedla.regions.ranking import rank_changes
from edgedla.regions.transitions import transitions_of
from edgedla.regions.values import Cause, LayerPrediction, NodePrediction, Placed, Prediction, Region
from edgedla.rules.verdict import Support, Verdict
from edgedla.targets import Platform


def predict(
    graph: LayerGraph,
    verdicts: Sequence[Verdict],
    platform: Platform,
    precision: str,
    mode: str = "fallback",
    ranked: bool = True,
) -> Prediction:
    """Predicts what TensorRT does with the network on this platform.

    A layer whose support is unknown, in the first check or in the second look, is predicted on the GPU and marked:
    the prediction never relies on what no source states. It is the same in every mode; `edgedla.regions.strict`
    answers for builds without fallback.

    Args:
        graph: the network.
        verdicts: one per live layer, in the same order.
        precision: "fp16" or "int8".
        mode: "fallback", "strict" or "standalone".
        ranked: also rank the changes, which takes longer than the rest.
    """
    supported = [v.support is Support.DLA and platform.has_dla for v in verdicts]
    units = fuse(graph)
    devices = unit_devices(units, supported)
    failing = failing_units(units, devices, {v.index: v.validation[0].message for v in verdicts if v.validation})
    groups = form_groups(units, devices, precision) if platform.has_dla else []
    regions = describe(graph, units, groups, failing)
    limit = subgraphs_per_core(platform)
    regions = apply_cap(regions, limit)
    layers = LayerOutcomes(graph, verdicts, platform, units, failing, regions, limit, mode == "fallback").all()
    return Prediction(
        layers=layers,
        nodes=tuple(_node(node, layers, graph) for node in graph.nodes),
        regions=regions,
        transitions=transitions_of(graph, units, layers, precision),
        ranking=rank_changes(graph, units, verdicts, layers, limit, precision) if platform.has_dla and ranked else (),
        notes=_notes(regions, limit),
    )


#: Types of layers that the parser adds around the layer that does a node's work.
HELPERS = frozenset({"SHUFFLE", "SQUEEZE", "UNSQUEEZE", "CONSTANT", "IDENTITY", "CAST"})


def _node(node: OnnxNode, layers: Sequence[LayerPrediction], graph: LayerGraph) -> NodePrediction:
    """The node's end state follows the layers that do its work, not the reshapes that the parser adds around them."""
    if not node.layers or node.unknown:
        support, placed, cause, reason = _without_layers(node)
        return NodePrediction(node.name, node.op, support, placed, node.layers, cause, reason)
    work = [layers[i] for i in node.layers]
    if len(work) > 1:
        work = [p for p in work if graph.layers[p.index].type not in HELPERS] or work
    support = min((p.support for p in work), key=_SUPPORTS.index)
    decisive = min(work, key=lambda p: _PLACES.index(p.placed))
    return NodePrediction(node.name, node.op, support, decisive.placed, node.layers, decisive.cause, decisive.reason)


#: Of a node with several layers the first of these that occurs decides.
_SUPPORTS = (Support.GPU, Support.UNKNOWN, Support.DLA)
_PLACES = (Placed.GPU, Placed.DLA, Placed.FOLDED)


def _without_layers(node: OnnxNode) -> Tuple[Support, Placed, Cause, str]:
    if node.unknown:
        return Support.UNKNOWN, Placed.GPU, Cause.UNKNOWN, node.unknown
    if node.constant_layers:
        # TensorRT's first check refuses CONSTANT layers, then folds them away.
        return Support.GPU, Placed.FOLDED, Cause.FOLDED, "a build-time constant"
    return Support.DLA, Placed.FOLDED, Cause.FOLDED, "leaves no layer to run"


def _notes(regions: Sequence[Region], limit: int) -> Tuple[str, ...]:
    dropped = sum(not r.kept for r in regions)
    if not dropped:
        return ()
    return (dropped_note(len(regions), limit, dropped),)


def dropped_note(groups: int, limit: int, dropped: int) -> str:
    """The note about loadables that no core takes."""
    return f"{groups} groups of layers fit the DLA; a core keeps the {limit} largest, the other {dropped} run on the GPU"
