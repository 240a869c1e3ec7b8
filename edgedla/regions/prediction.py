"""From verdicts to the predicted end state: layers and ONNX nodes with their causes, regions, transitions, ranking."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph, OnnxNode
from edgedla.regions.candidates import describe, failing_units, form_groups, split_groups, unit_devices
from edgedla.regions.cap import apply_cap, subgraphs_per_core
from edgedla.regions.fusions import UnitGraph, fuse
from edgedla.regions.ranking import rank_changes
from edgedla.regions.transitions import transitions_of
from edgedla.regions.values import Cause, LayerPrediction, NodePrediction, Placed, Prediction, Region
from edgedla.rules.verdict import Effect, Support, Verdict
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
    layers = _layers(graph, verdicts, platform, units, failing, regions, limit)
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


def _layers(
    graph: LayerGraph,
    verdicts: Sequence[Verdict],
    platform: Platform,
    units: UnitGraph,
    failing: Dict[int, str],
    regions: Sequence[Region],
    limit: int,
) -> Tuple[LayerPrediction, ...]:
    region_of = {i: r for r in regions for i in r.layers}
    erased = set(units.erased)
    roots = [_root_cause(v, platform) for v in verdicts]
    result: List[LayerPrediction] = []
    for verdict in verdicts:
        i = verdict.index
        root = roots[i]
        region = region_of.get(i)
        support = verdict.support if platform.has_dla or platform.dla_unknown else Support.GPU

        def end(
            placed: Placed,
            cause: Cause,
            reason: str,
            because_of: Tuple[int, ...] = (),
            i: int = i,
            support: Support = support,
            region: Optional[Region] = region,
        ) -> LayerPrediction:
            return LayerPrediction(i, support, placed, region.id if region else None, cause, reason, because_of)

        if i in erased:
            result.append(end(Placed.FOLDED, Cause.FOLDED, "moves nothing once the shuffles around it are fused"))
        elif root is not None:
            result.append(end(Placed.GPU, *root))
        elif region is not None and region.kept:
            result.append(end(Placed.DLA, Cause.ON_DLA, "runs on the DLA"))
        elif region is not None:
            behind = tuple(c.layer for c in region.cuts)
            reason = (
                f"its region has {region.size} layer{'s' * (region.size != 1)} and is none of the "
                f"{limit} largest of {len(regions)} candidates that one DLA core takes"
            )
            result.append(end(Placed.GPU, Cause.SUBGRAPH_LIMIT, reason, behind))
        elif verdict.validation and units.unit_of[i] in failing:
            finding = verdict.validation[0]
            cause = Cause.VALIDATION if finding.effect is Effect.REJECT else Cause.UNKNOWN
            result.append(end(Placed.GPU, cause, finding.message))
        else:
            unit = units.units[units.unit_of[i]]
            others = tuple(j for j in unit.layers if j != i and (roots[j] or verdicts[j].validation))
            behind = others or unit.reshape_of
            names = ", ".join(graph.layers[j].name for j in behind[:3])
            what = f"merged into one layer with {names}" if others else f"merged into the reshape beside {names}"
            result.append(end(Placed.GPU, Cause.FUSED, f"{what}, which the GPU runs", behind))
    return tuple(_with_roots(p, result) for p in result)


def _with_roots(p: LayerPrediction, layers: Sequence[LayerPrediction]) -> LayerPrediction:
    """For a layer that the cap dropped: the root causes behind its cuts, in place of other knock-ons."""
    if p.cause is not Cause.SUBGRAPH_LIMIT:
        return p
    behind = (layers[j].because_of if layers[j].cause is Cause.FUSED else (j,) for j in p.because_of)
    return replace(p, because_of=tuple(sorted({j for group in behind for j in group})))


def _root_cause(verdict: Verdict, platform: Platform) -> Optional[Tuple[Cause, str]]:
    if not platform.has_dla:
        return (Cause.UNKNOWN if platform.dla_unknown else Cause.NO_DLA), platform.no_dla or "no DLA"
    if verdict.support is Support.DLA:
        return None
    wanted = Effect.REJECT if verdict.support is Support.GPU else Effect.UNKNOWN
    message = next((f.message for f in verdict.findings if f.effect is wanted), "no rule says that the DLA runs it")
    return (Cause.RULE if verdict.support is Support.GPU else Cause.UNKNOWN), message


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
