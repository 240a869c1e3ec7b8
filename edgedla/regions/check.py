"""`check`: from a model and a platform to a CheckReport."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, AbstractSet, Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.errors import UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.branches import branches_of
from edgedla.graph.open_sizes import TRTEXEC_BATCH, GivenSizes, closing_options, data_sizes_text, open_inputs
from edgedla.importers.network.limits import above_volume_limit
from edgedla.regions.float16_model import NO_INT8, as_built, built_precision, conversion_of, without_conversion
from edgedla.regions.prediction import predict
from edgedla.regions.report import CheckReport, LayerReport, RegionReport, StrictResult, Totals
from edgedla.regions.values import Cause, Placed, Prediction, Region
from edgedla.regions.work import Work, skipped_macs, work_is_known, work_of
from edgedla.rules.verdict import Verdict
from edgedla.targets import Platform, platform_for
from edgedla.vocabulary import CHECK_MODES, PRECISIONS, one_of

if TYPE_CHECKING:
    from edgedla.rules import RuleSet


def read_and_check(
    model: Union[str, Path, bytes, Any],
    platform: Platform,
    precision: str,
    mode: str,
    shapes: Optional[Mapping[str, Sequence[int]]],
    batch: Optional[int],
) -> Tuple[LayerGraph, CheckReport]:
    """The network as training leaves it and a build takes it, and its report.

    On a strongly typed release that is the model as FLOAT16; `as_it_is` then holds the counts of the file as it is.

    Raises:
        UsageError: unknown precision or mode.
        ModelError: the model cannot be read, or TensorRT's parser refuses it.
    """
    from edgedla.importers import load_onnx

    precision = one_of("precision", precision, PRECISIONS)
    mode = one_of("mode", mode, CHECK_MODES)

    def load(source: Any) -> LayerGraph:
        trt = platform.release.trt
        return load_onnx(source, trt=trt, shapes=shapes, batch=batch, open_batch=TRTEXEC_BATCH, as_trained=True)

    graph = load(as_built(model, platform, mode, shapes=shapes, batch=batch))
    asked, precision = precision, built_precision((x.type for x in graph.layers), platform, precision)
    if precision != asked:
        graph = replace(graph, notes=(NO_INT8, *graph.notes))
    report = replace(check_graph(graph, platform, precision, mode), sizes=GivenSizes(shapes, batch))
    if conversion_of(graph):
        as_it_is = check_graph(load(model), platform, precision, mode, ranked=False).totals
        report = replace(report, as_it_is=as_it_is)
    return graph, report


@typed
def compare(
    model: Union[str, Path, bytes, Any],
    platforms: Sequence[Union[str, Platform]],
    *,
    precision: Optional[str] = None,
    mode: str = "fallback",
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
) -> Tuple[CheckReport, ...]:
    """Checks one model on several platforms, in their order. Platforms of one release share one import of the model.

    Args:
        platforms: modules' names, as `target` of `edgedla.check`, or what `platform_for` returns.
        precision: of all; by default each platform's, as in `edgedla.check`.

    Raises:
        UsageError: no platform, unknown module, precision or mode.
        ModelError: the model cannot be read, or TensorRT's parser refuses it.
    """
    from edgedla.importers import load_onnx

    asked = None if precision is None else one_of("precision", precision, PRECISIONS)
    mode = one_of("mode", mode, CHECK_MODES)
    if not platforms:
        raise UsageError("there is nothing to compare", hint="name at least one target")
    graphs: Dict[Tuple[int, ...], LayerGraph] = {}
    reports = []
    for platform in (platform_for(one) if isinstance(one, str) else one for one in platforms):
        precision = asked or platform.precision
        trt = platform.release.trt
        if platform.release.strongly_typed:
            # What stays FLOAT depends on the module.
            reports.append(read_and_check(model, platform, precision, mode, shapes, batch)[1])
            continue
        if trt not in graphs:
            graphs[trt] = load_onnx(model, trt=trt, shapes=shapes, batch=batch, open_batch=TRTEXEC_BATCH, as_trained=True)
        reports.append(check_graph(graphs[trt], platform, precision, mode))
    return tuple(reports)


def check_graph(
    graph: LayerGraph,
    platform: Platform,
    precision: str,
    mode: str = "fallback",
    rules: Optional[RuleSet] = None,
    ranked: bool = True,
) -> CheckReport:
    """`check` for a graph that is already imported.

    Args:
        ranked: False leaves the ranking empty, for callers that check many forms of one network.
    """
    from edgedla.rules import load_rules

    rules = rules or load_rules()
    verdicts = rules.check(graph, platform, precision, mode=mode)
    if graph.halved or conversion_of(graph):
        verdicts = without_conversion(verdicts)
    prediction = predict(graph, verdicts, platform, precision, mode, ranked)
    strict: Optional[StrictResult] = None
    if mode != "fallback":
        from edgedla.regions.strict import check_strict, known_as

        findings = rules.check_io(graph, platform, precision, mode)
        assumed = known_as(graph, verdicts, prediction, platform, precision)
        strict = check_strict(graph, prediction, platform, mode, findings, assumed)
    exported = as_exported(graph, platform, precision, mode, rules)
    work = work_of(graph)
    layers = tuple(_layer(graph, v, prediction, work) for v in verdicts)
    # In strongly typed releases INT8 means Q/DQ, and the DLA runs the other layers in FP16.
    narrow = graph.narrow if precision == "int8" and not platform.release.strongly_typed else ()
    return CheckReport(
        model=graph.name,
        sha256=graph.sha256,
        platform=platform,
        precision=precision,
        mode=mode,
        rules_version=rules.version,
        lowering=graph.lowering,
        stands_in_for=graph.stands_in_for,
        layers=layers,
        nodes=prediction.nodes,
        regions=tuple(_region(graph, r, work, platform, precision, rules) for r in prediction.regions),
        transitions=prediction.transitions,
        totals=_totals(layers, prediction, work_is_known(graph), skipped_macs(graph, work)),
        ranking=prediction.ranking,
        strict=strict,
        notes=_notes(graph, platform, len(narrow), prediction, exported),
        as_exported=exported,
        narrow_layers=len(narrow),
        closing=closing_options(graph),
        of_the_data=not open_inputs(graph) and bool(data_sizes_text(graph)),
        verdicts=verdicts if mode == "fallback" else (),
    )


def _layer(graph: LayerGraph, verdict: Verdict, prediction: Prediction, work: Sequence[Work]) -> LayerReport:
    layer = graph.layers[verdict.index]
    p = prediction.layers[verdict.index]
    return LayerReport(
        index=p.index,
        name=layer.name,
        type=layer.type,
        onnx_nodes=(layer.onnx_node,) if layer.onnx_node else (),
        support=p.support,
        placed=p.placed,
        region=p.region,
        macs=work[p.index].macs,
        basis=verdict.basis,
        cause=p.cause,
        reason=p.reason,
        because_of=p.because_of,
        findings=verdict.findings + (verdict.validation if p.cause.is_root else ()),
        predecessors=graph.predecessors(p.index),
        source=layer.source,
    )


def _region(
    graph: LayerGraph, region: Region, work: Sequence[Work], platform: Platform, precision: str, rules: RuleSet
) -> RegionReport:
    inside = set(region.layers)
    read = [t for i in region.layers for t in graph.activations(graph.layers[i])]
    inputs = [t.name for t in read if graph.producer(t.name) not in inside]
    written = [t for i in region.layers for t in graph.layers[i].outputs]
    outputs = {t for t in written if t in graph.output_names or any(c not in inside for c in graph.readers(t))}
    element_bytes = 1 if precision == "int8" else 2
    weight_bytes = sum(work[i].weight_elements for i in region.layers) * element_bytes
    internal_bytes = sum(graph.tensors[t].size_bytes(element_bytes) for t in written if t not in outputs)
    first, last = (graph.layers[i].name for i in (region.layers[0], region.layers[-1]))
    name = first if len(region.layers) == 1 else f"{first}...{last}"
    return RegionReport(
        id=region.id,
        name=f"{{ForeignNode[{name}]}}",
        layers=region.layers,
        kept=region.kept,
        size=region.size,
        batch=region.batch,
        macs=sum(work[i].macs for i in region.layers),
        inputs=tuple(dict.fromkeys(inputs)),
        outputs=tuple(t for t in written if t in outputs),
        cuts=region.cuts,
        weight_bytes=weight_bytes,
        internal_bytes=internal_bytes,
        findings=rules.check_loadable(weight_bytes, internal_bytes, platform, name),
    )


def _totals(layers: Sequence[LayerReport], prediction: Prediction, work_known: bool, skipped: AbstractSet[int]) -> Totals:
    """Args:
    skipped: layers whose MACs do not count: a frame runs one branch of a condition.
    """
    counted = [layer for layer in layers if layer.index not in skipped] if work_known else []

    def count(placed: Placed) -> int:
        return sum(layer.placed is placed for layer in layers)

    return Totals(
        layers=len(layers),
        layers_dla=count(Placed.DLA),
        layers_gpu=count(Placed.GPU),
        layers_folded=count(Placed.FOLDED),
        layers_unknown=sum(layer.cause is Cause.UNKNOWN for layer in layers),
        macs=sum(layer.macs for layer in counted if layer.placed is not Placed.FOLDED),
        macs_dla=sum(layer.macs for layer in counted if layer.placed is Placed.DLA),
        regions=len(prediction.kept),
        regions_dropped=len(prediction.dropped),
        transitions=len(prediction.transitions),
    )


def as_exported(
    graph: LayerGraph, platform: Platform, precision: str, mode: str, rules: Optional[RuleSet] = None
) -> Optional[Totals]:
    """Totals of the file as exported, if the graph is the model as it will be after training; else None."""
    if graph.as_exported is None:
        return None
    return check_graph(graph.as_exported, platform, precision, mode, rules, ranked=False).totals


def untrained_note(as_exported: Totals) -> str:
    """That an answer is for the trained model, beside what trtexec makes of the untrained file."""
    live = as_exported.layers_dla + as_exported.layers_gpu
    loadables, dropped = as_exported.regions, as_exported.regions_dropped
    return (
        "this answer is for the trained model, which edgedla also builds. The file was exported untrained: PyTorch wrote equal "
        "parameters once and shares them through Identity nodes. That keeps BatchNormalization from folding, and convolutions with "
        f"such a bias off the DLA; trtexec's build of this file has {as_exported.layers_dla} of {live} layers on the DLA in {loadables} "
        f"loadable{'s' * (loadables != 1)}{f' ({dropped} more dropped by their limit)' * bool(dropped)}; export after training"
    )


def _notes(
    graph: LayerGraph, platform: Platform, narrow: int, prediction: Prediction, exported: Optional[Totals]
) -> Tuple[str, ...]:
    notes = list(graph.notes) + list(prediction.notes)
    if exported is not None:
        notes.insert(0, untrained_note(exported))
    if narrow:
        notes.insert(
            0,
            f"{narrow} of {len(graph.layers)} layers compute in {graph.narrow_text} and INT8 scales "
            "are measured on FP32: it is not known whether TensorRT runs them in INT8. `edgedla fix --precision int8` converts the "
            "types to FP32 and proves it; `quantize` and `deploy` do so by themselves; `build` refuses the model",
        )
    notes += [
        f"If {node!r}: one of its branches runs per frame, and the MACs and times of a frame are those of the longer one. Verdicts are "
        "given for the layers of both"
        for node, _, _ in branches_of(graph)
    ]
    large = next((t for x in graph.layers for t in graph.output_tensors(x) if above_volume_limit(t.dims)), None)
    if large is not None:
        notes.append(
            f"tensor {large.name!r} has {large.volume} elements, more than 2^31 - 1 (GEN008): TensorRT may not build this network, on the "
            "GPU alone either"
        )
    of_the_data = "" if open_inputs(graph) else data_sizes_text(graph)
    if of_the_data:
        notes.append(f"{of_the_data}; end the model before it")
    notes[:0] = platform.notes
    unknown = sum(p.cause is Cause.UNKNOWN for p in prediction.layers)
    if unknown and platform.has_dla:
        notes.append(unknown_note(unknown))
    return tuple(notes)


def unknown_note(layers: int) -> str:
    """The note about layers that may run on the DLA or not."""
    them = "1 layer has unknown support and is" if layers == 1 else f"{layers} layers have unknown support and are"
    return f"{them} predicted on the GPU"
