"""From verdicts to the predicted end state: layers and ONNX nodes with their causes, regions, transitions, ranking."""

from __future__ import annotations

from typing import Sequence, Tuple

from edgedla.graph import LayerGraph, OnnxNode
from edgedla.regions.candidates import describe, failing_units, form_groups, split_groups, unit_devices
from edgedla.regions.cap import apply_cap, subgraphs_per_core
from edgedla.regions.fusions import fuse
from edgedla.regions.outcomes import LayerOutcomes
from edgedla.regions.ranking import rank_changes
from edgedla.regions.transitions import transitions_of
from edgedla.regions.values import Cause, LayerPrediction, NodePrediction, Placed, Prediction, Region
from edgedla.rules.verdict import Support, Verdict
from edgedla.targets import Platform


def predict(
    graph: LayerGraph, verdicts: Sequence[Verdict], platform: Platform, precision: str, mode: str = "fallback"
) -> Prediction:
    """What TensorRT will do with the network on this platform.

    A layer whose support is unknown, in the first check or in the second look, is predicted on the GPU and marked:
    the prediction never counts on what no source states. The prediction is the same in every mode; what a build
    without fallback says to it stands in `edgedla.regions.strict`.

    Args:
        graph: the network.
        verdicts: one a live layer, in the same order.
        precision: "fp16" or "int8".
        mode: "fallback", "strict" or "standalone"; recorded in no field.
    """
    supported = [v.support is Support.DLA and platform.has_dla for v in verdicts]
    units = fuse(graph)
    devices = unit_devices(units, supported)
    failing = failing_units(units, devices, {v.index: v.validation[0].message for v in verdicts if v.validation})
    groups = form_groups(units, devices, waits_for_batch=precision != "int8") if platform.has_dla else []
    regions = describe(graph, units, split_groups(groups, failing), failing)
    limit = subgraphs_per_core(platform)
    regions = apply_cap(regions, limit)
    layers = LayerOutcomes(graph, verdicts, platform, units, failing, regions, limit).all()
    return Prediction(
        layers=layers,
        nodes=tuple(_node(node, layers, graph) for node in graph.nodes),
        regions=regions,
        transitions=transitions_of(graph, units, layers, precision),
        ranking=rank_changes(graph, units, verdicts, supported, failing, layers, limit, precision)
        if platform.has_dla
        else (),
        notes=_notes(regions, limit),
    )


#: Layers that the parser puts around the one that does a node's work.
HELPERS = frozenset({"SHUFFLE", "CONSTANT", "IDENTITY", "CAST"})


def _node(node: OnnxNode, layers: Sequence[LayerPrediction], graph: LayerGraph) -> NodePrediction:
    """The node's end state follows the layers that do its work, not the reshapes that the parser adds around them."""

    def made(support: Support, placed: Placed, cause: Cause, reason: str) -> NodePrediction:
        return NodePrediction(node.name, node.op, support, placed, node.layers, cause, reason)

    if node.unknown:
        return made(Support.UNKNOWN, Placed.GPU, Cause.UNKNOWN, node.unknown)
    if not node.layers:
        if node.constant_layers:
            # TensorRT's first check refuses CONSTANT layers, then folds them away.
            return made(Support.GPU, Placed.FOLDED, Cause.FOLDED, "a build-time constant")
        return made(Support.DLA, Placed.FOLDED, Cause.FOLDED, "leaves no layer to run")
    work = [layers[i] for i in node.layers if graph.layers[i].type not in HELPERS]
    work = work or [layers[i] for i in node.layers]
    support = next(
        (s for s in (Support.GPU, Support.UNKNOWN) if any(p.support is s for p in work)),
        Support.DLA,
    )
    for placed in (Placed.GPU, Placed.DLA):
        decisive = next((p for p in work if p.placed is placed), None)
        if decisive is not None:
            return made(support, placed, decisive.cause, decisive.reason)
    return made(support, Placed.FOLDED, work[0].cause, work[0].reason)


def _notes(regions: Sequence[Region], limit: int) -> Tuple[str, ...]:
    dropped = sum(not r.kept for r in regions)
    if not dropped:
        return ()
    return (
        f"{len(regions)} candidate subgraphs, and one DLA core takes {limit}: the {dropped} smallest run on the GPU",
    )
