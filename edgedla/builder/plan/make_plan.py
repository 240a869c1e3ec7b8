"""From a checked network to a BuildPlan: devices, precisions, border formats, pools. Refuses what is not legal."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Optional, Sequence, Set, Tuple

from edgedla.builder.plan.devices import _devices, by_name
from edgedla.builder.plan.legality import refuse_illegal, refuse_standalone, with_unknown_formats
from edgedla.builder.plan.plan import BuildPlan, Calibration, IoPlan, LayerPlan
from edgedla.builder.plan.pools import choose_pools
from edgedla.builder.request import PlanOptions
from edgedla.errors import UsageError
from edgedla.formats import IoFormat
from edgedla.formats.choose import choose_io
from edgedla.graph import LayerGraph
from edgedla.graph.layer_graph import SPARSE
from edgedla.graph.named import require_borders
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.numerics import INT8_EQUAL_SCALES, departures
from edgedla.quantization.scale_rules import scale_rules
from edgedla.quantization.unify import dla_scales
from edgedla.regions import CheckReport, Placed
from edgedla.regions.candidates import candidates
from edgedla.regions.check import unknown_note
from edgedla.vocabulary import BUILD_MODES, GPU, PRECISIONS, one_of

#: Most layers without a scale that a note names.
_NAMED = 8


def make_plan(
    graph: LayerGraph,
    report: CheckReport,
    *,
    mode: str = "hybrid",
    calibration: Optional[Calibration] = None,
    options: Optional[PlanOptions] = None,
    dynamic_inputs: Sequence[str] = (),
) -> BuildPlan:
    """The plan for a network that was checked for a platform and precision.

    Args:
        report: `regions.check_graph(graph, ...)`; for mode "standalone" made in that mode.
        calibration: scales for INT8, by ONNX tensor name.
        dynamic_inputs: inputs whose sizes the model leaves open.

    Raises:
        UsageError: an option names an unknown layer or tensor, contradicts the mode, or asks for a device, format or
            pool against a rule.
        BuildError: the plan is not legal; every offence is named with its rule.
    """
    options = options or PlanOptions()
    mode = one_of("mode", mode, BUILD_MODES)
    platform = report.platform
    if mode == "standalone":
        refuse_standalone(report, allow_unknown=options.allow_unknown)
    typed = platform.release.strongly_typed
    if typed and options.precisions:
        raise UsageError("layer precisions do not exist in TensorRT 11", hint="the tensors' types decide; change the ONNX")
    devices = _devices(graph, report, mode, options)
    on_dla = [d != GPU for d in devices]
    cores = sorted({d for d in devices if d != GPU})
    precisions = _precisions(graph, report, on_dla, typed, options)
    numerics = departures(options.numerics)
    calibration = calibration or Calibration()
    if report.precision == "int8" and not typed:
        how = "ranges" if options.set_ranges else "calibrator"
        equal = numerics.get(INT8_EQUAL_SCALES) != "own"
        # A layer in FP16 reads each tensor by its own scale.
        in_int8 = [on and precision in (None, "int8") for on, precision in zip(on_dla, precisions)]
        scales = dla_scales(graph, calibration.absmax, platform, lambda index: in_int8[index], equal)
        rules = {change.tensor: change.rule for change in scales.changes}
        kept = {*(calibration.absmax if calibration.source == "cache" else ()), *_stored(graph, on_dla)}
        absmax = {name: x for name, x in scales.absmax.items() if name in kept}
        calibration = replace(calibration, absmax=absmax, apply=how, rules=rules)
    fallback = mode == "hybrid"
    regions = _regions(graph, report, on_dla)
    plan = BuildPlan(
        model={"name": graph.name, "sha256": graph.sha256},
        platform=platform.to_dict(),
        mode=mode,
        precision=report.precision,
        dla_core=int(cores[0][3:]) if cores else None,
        gpu_fallback=fallback,
        strongly_typed=typed,
        layers=tuple(
            LayerPlan(x.name, x.type, d, p, str(r.support), x.outputs, x.onnx_node, folded=r.placed is Placed.FOLDED)
            for x, r, d, p in zip(graph.layers, report.layers, devices, precisions)
        ),
        io=_io(graph, report, mode, on_dla, precisions, calibration, options, dynamic_inputs),
        pools=choose_pools(platform, options.concurrent_engines, options.pools, len(regions)),
        calibration=calibration,
        sparsity=options.sparsity,
        obey_precision=options.obey_precision,
        concurrent_engines=options.concurrent_engines,
        timing_cache=options.timing_cache,
        regions=regions,
        numerics=numerics,
        notes=(
            *_notes(graph, report, on_dla, calibration, typed, options),
            *_other_loadables(report, len(regions), mode, options),
            *(_without_scales(graph, on_dla, calibration) if report.precision == "int8" and not typed else ()),
        ),
    )
    pinned = by_name(options.devices, graph, "devices").keys()
    formatted = formats_by_name(graph, options).keys()
    refuse_illegal(plan, graph, report, cores, options.allow_unknown, pinned, formatted)
    return with_unknown_formats(plan, graph, platform)


def _stored(graph: LayerGraph, on_dla: Sequence[bool]) -> Set[str]:
    """Tensors that the DLA reads or writes, and the network's own. A scale of any other lets TensorRT take INT8 on the GPU, which
    no simulation shows; without one it takes FP16 there."""
    touched = (t for layer in graph.layers if on_dla[layer.index] for t in (*layer.inputs, *layer.outputs))
    return {*graph.inputs, *graph.outputs, *touched}


def _precisions(
    graph: LayerGraph, report: CheckReport, on_dla: Sequence[bool], typed: bool, options: PlanOptions
) -> List[Optional[str]]:
    by_hand = by_name(options.precisions, graph, "precisions")
    fp16_only = scale_rules().fp16_only
    precisions: List[Optional[str]] = []
    for layer in graph.layers:
        requested = by_hand.get(layer.name)
        if requested is not None and requested not in PRECISIONS:
            raise UsageError(f"unknown precision {requested!r}", where=layer.name, allowed=", ".join(PRECISIONS))
        if requested == "int8" and report.precision != "int8":
            raise UsageError(
                f"{layer.name} is to run in INT8 in an FP16 build: TensorRT ends such a build with an error (MSG317)",
                where="precisions",
                allowed="fp16, or --precision int8",
            )
        forced = report.precision == "int8" and on_dla[layer.index] and layer.onnx_op in fp16_only
        precisions.append(None if typed else (requested or ("fp16" if forced else None)))
    return precisions


def _io(
    graph: LayerGraph,
    report: CheckReport,
    mode: str,
    on_dla: Sequence[bool],
    precisions: Sequence[Optional[str]],
    calibration: Calibration,
    options: PlanOptions,
    dynamic_inputs: Sequence[str],
) -> Tuple[IoPlan, ...]:
    names = (*graph.inputs, *graph.outputs)
    requested = formats_by_name(graph, options)
    chosen: Dict[str, IoFormat] = {}
    if mode == "standalone" or options.reformat_free:
        check_mode = "standalone" if mode == "standalone" else "fallback"
        differing = {i: p for i, p in enumerate(precisions) if p}
        border = report.precision
        if report.platform.release.strongly_typed and any(graph.tensors[n].dtype != "INT8" for n in names):
            # The model's own types also apply at the border, whatever precision was asked for.
            border = "fp16"
        for choice in choose_io(graph, report.platform, border, check_mode, on_dla=on_dla, precisions=differing):
            if choice.chosen is not None:
                chosen[choice.name] = choice.chosen.io
    io_plans = []
    for name in names:
        tensor = graph.tensors[name]
        io = requested.get(name) or chosen.get(name)
        dtype, form = (io.dtype, str(io.format)) if io else (tensor.dtype, "LINEAR")
        absmax = calibration.absmax.get(name)
        scale = absmax / INT8_MAX if dtype == "INT8" and absmax is not None else None
        io_plans.append(IoPlan(name, name in graph.input_names, tensor.dims, dtype, form, scale, name in dynamic_inputs))
    return tuple(io_plans)


def formats_by_name(graph: LayerGraph, options: PlanOptions) -> Dict[str, IoFormat]:
    """The formats that were asked for, by tensor name.

    Raises:
        UsageError: the number of formats is neither one nor the number of tensors of that direction; or a name is
            neither an input nor an output.
    """
    require_borders(options.formats, (*graph.inputs, *graph.outputs), "formats")
    formats_of: Dict[str, IoFormat] = {}
    for what, group, formats in (
        ("input", graph.inputs, options.input_formats),
        ("output", graph.outputs, options.output_formats),
    ):
        if formats and len(formats) not in (1, len(group)):
            raise UsageError(
                f"{len(formats)} {what} formats for {len(group)} {what}{'s' * (len(group) != 1)}", allowed="one, or one for each"
            )
        # trtexec takes one format for all tensors of a direction.
        formats_of.update(zip(group, formats * len(group) if len(formats) == 1 else formats))
    return {**formats_of, **options.formats}


def _regions(graph: LayerGraph, report: CheckReport, on_dla: Sequence[bool]) -> Tuple[Tuple[str, str, int], ...]:
    groups = candidates(graph, list(on_dla), report.platform, report.precision)
    names = [layer.name for layer in graph.layers]
    return tuple((names[r.layers[0]], names[r.layers[-1]], len(r.layers)) for r in groups)


def _other_loadables(report: CheckReport, planned: int, mode: str, options: PlanOptions) -> Tuple[str, ...]:
    """A note if the plan has other loadables than TensorRT's own placement of the same DLA layers."""
    by_itself = sum(r.kept for r in report.regions)
    if mode != "hybrid" or options.placed or options.devices or options.allow_unknown or planned == by_itself:
        return ()
    return (
        f"{planned} loadable{'s' * (planned != 1)}; TensorRT by itself makes {by_itself}, as `edgedla check` says: it splits a "
        "loadable where its second look refuses a layer, which this plan gives to the GPU from the start",
    )


def _without_scales(graph: LayerGraph, on_dla: Sequence[bool], calibration: Calibration) -> Tuple[str, ...]:
    """DLA layers that run in FP16 because a tensor has no scale (rule Q-01 of the INT8 chapter)."""
    missing = []
    for layer in graph.layers:
        tensors = [t.name for t in graph.activations(layer)] + list(layer.outputs)
        if on_dla[layer.index] and any(t not in calibration.absmax for t in tensors):
            missing.append(layer.name)
    if not missing:
        return ()
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return (f"no INT8 scale, so in FP16 on the DLA: {', '.join(missing[:_NAMED])}{more}",)


def _notes(
    graph: LayerGraph, report: CheckReport, on_dla: Sequence[bool], calibration: Calibration, typed: bool, options: PlanOptions
) -> Tuple[str, ...]:
    notes, unknown = list(report.notes), report.totals.layers_unknown
    if unknown and options.allow_unknown:
        notes = [note for note in notes if note != unknown_note(unknown)]
        notes.append(f"unknown whether the DLA runs them, planned there, and TensorRT decides: {unknown} layers")
    elif unknown:
        notes.append("--allow-unknown plans layers of unknown support on the DLA, where TensorRT takes them")
    if report.platform.has_dla and not any(on_dla):
        # With a placement, a network entirely on the GPU is the placement's choice, not the rules'.
        refused = () if options.placed else report.layers
        first = next((x.reason for x in refused if x.placed is Placed.GPU and x.reason), "")
        notes.append("no layer runs on the DLA" + (f"; the first one's reason: {first}" if first else ""))
    if calibration.source == "synthetic":
        notes.append(
            "INT8 scales come from random input: the flow works, the accuracy means nothing. Give --calib-data or --calib."
        )
    if typed:
        notes.append("TensorRT 11 takes precision from the model's tensor types; --precision changes no type in the ONNX")
    if options.sparsity and not report.platform.module.uses_sparsity(report.precision):
        where = f"the DLA of {report.platform.module.title} at {report.precision}"
        notes.append(f"--sparsity gains nothing on {where}: only Orin's at int8 uses it")
    elif options.sparsity and not any(on and SPARSE in x.params for x, on in zip(graph.layers, on_dla)):
        notes.append(
            "--sparsity gains nothing with dense weights, and no convolution on the DLA is known to have 2:4 sparse ones"
        )
    if options.numerics:
        chosen = ", ".join(f"{name} {variant}" for name, variant in departures(options.numerics).items())
        notes.append(f"simulated with other numerics than the default: {chosen or 'none'}")
    if options.placed:
        notes.append("devices are those of a placement")
    return tuple(dict.fromkeys((*notes, *by_hand_notes(options))))


def by_hand_notes(options: PlanOptions) -> Tuple[str, ...]:
    if not options.devices:
        return ()
    return ("devices set by hand: " + ", ".join(f"{k}:{v}" for k, v in sorted(options.devices.items())),)
