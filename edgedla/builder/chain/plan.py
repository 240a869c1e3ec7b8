"""Plans a chain: cuts a network whose placement uses both DLA cores into stages, each with a model and a build plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.builder.chain.border_formats import border_formats
from edgedla.builder.chain.check_stage_layers import Names, same_layers
from edgedla.builder.chain.extract import StageModel, extract, node_groups
from edgedla.builder.chain.split import StageLayers, split_stages
from edgedla.builder.plan.devices import by_name, devices_of
from edgedla.builder.plan.make_plan import by_hand_notes, formats_by_name, make_plan
from edgedla.builder.plan.plan import BuildPlan, Calibration, IoPlan
from edgedla.builder.request import PlanOptions
from edgedla.errors import BuildError
from edgedla.formats import IoFormat, TensorFormat
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.quantization.numerics import INT8_EQUAL_SCALES
from edgedla.quantization.unify import dla_scales
from edgedla.regions import check_graph
from edgedla.targets.platform import Platform

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class StagePlan:
    """The plan of one stage.

    Attributes:
        device: its DLA core, or "GPU".
        model: its ONNX model, serialised. plan: the build plan for that model.
        names: the whole network's names -> the names in the stage's own network.
    """

    device: str
    model: bytes
    plan: BuildPlan
    names: Mapping[str, str]


@dataclass(frozen=True)
class ChainPlan:
    """Stages in the order in which a frame passes them, and the network's own inputs and outputs."""

    stages: Tuple[StagePlan, ...]
    io: Tuple[IoPlan, ...]
    calibration: Calibration
    notes: Tuple[str, ...]

    @property
    def between(self) -> Tuple[str, ...]:
        """Tensors that one stage hands to a later one, in order."""
        read = {io.name for stage in self.stages for io in stage.plan.inputs}
        return tuple(io.name for stage in self.stages for io in stage.plan.outputs if io.name in read)


@dataclass(frozen=True)
class WholeNetwork:
    """The network to cut into a chain, as input of `plan_chain`.

    Attributes:
        model: onnx.ModelProto that `graph` was read from; without weights its stages can be planned, not built.
        mode: "hybrid" or "standalone", for every stage.
        calibration: INT8 scales of the whole network.
    """

    model: ModelProto
    graph: LayerGraph
    platform: Platform
    precision: str
    mode: str
    calibration: Calibration
    options: PlanOptions


def plan_chain(whole: WholeNetwork, regions: Sequence[Sequence[int]]) -> ChainPlan:
    """Cuts the network where the core changes and plans every stage as a model of its own.

    Args:
        regions: the placement's loadables by layer index; none of them is cut.

    Raises:
        BuildError: no cut is possible, a stage's model has other layers than the whole model, or a plan is not legal.
        UsageError: an option names no layer or tensor.
    """
    graph, options = whole.graph, whole.options
    devices = devices_of(graph, options)
    # A region may be cut if devices set by hand put its layers on several devices.
    whole_regions = [r for r in regions if len({devices[i] for i in r} - {None}) == 1]
    stages = split_stages(graph, devices, (*node_groups(graph), *whole_regions))
    parts = _parts(whole, stages)
    ranges = dla_scales(
        graph,
        whole.calibration.absmax,
        whole.platform,
        lambda index: devices[index] not in (None, "GPU"),
        options.numerics.get(INT8_EQUAL_SCALES) != "own",
    ).absmax
    precisions = by_name(options.precisions, graph, "precisions")
    scales = [{stage_name: ranges[name] for name, stage_name in p.names.tensors.items() if name in ranges} for p in parts]
    network = {*graph.inputs, *graph.outputs}
    formats = {k: v for k, v in formats_by_name(graph, options).items() if k in network}
    formats.update(
        border_formats(
            [(p.graph, p.on_dla(devices)) for p in parts],
            whole.platform,
            whole.precision,
            whole.mode,
            scales,
            [{p.names.layers[k]: v for k, v in precisions.items() if k in p.names.layers} for p in parts],
            network,
        )
    )
    planned = []
    for part, own_scales in zip(parts, scales):
        plan = _planned(
            part, devices, own_scales, formats, precisions, engines_that_share_sram(whole.platform, stages, part.stage)
        )
        # The first stage with a tensor of the network chooses its format; later stages use the same.
        for io in plan.io:
            formats.setdefault(io.name, IoFormat(TensorFormat(io.format), io.dtype))
        planned.append(StagePlan(part.stage.device, part.data, plan, part.names.layers))
    chain = ChainPlan(tuple(planned), _network_io(graph, planned), replace(whole.calibration, absmax=ranges), ())
    _check_borders(graph.name, chain)
    return replace(chain, notes=(*_notes(chain, stages, whole_regions), *by_hand_notes(options)))


def _parts(whole: WholeNetwork, stages: Sequence[StageLayers]) -> List[_Part]:
    def parts(sizes_known: bool) -> List[_Part]:
        made = extract(whole.model, whole.graph, [s.layers for s in stages], sizes_known=sizes_known)
        return [_Part(whole, stage, model) for stage, model in zip(stages, made)]

    try:
        return parts(sizes_known=True)
    except BuildError as first:
        try:
            return parts(sizes_known=False)
        except BuildError:
            raise first from None


class _Part:
    """A stage with its model read back as the parser reads it."""

    def __init__(self, whole: WholeNetwork, stage: StageLayers, made: StageModel) -> None:
        self.whole, self.stage = whole, stage
        try:
            # Deterministic bytes: the stage's hash must depend on its content alone.
            self.data = bytes(made.model.SerializeToString(deterministic=True))
        except Exception as e:
            # protobuf has several classes for a message above its 2 GiB.
            raise BuildError(f"a stage cannot be written as one ONNX file: {e}", where=whole.graph.name) from e
        self.graph = load_onnx(self.data, trt=whole.platform.release.trt)
        self.names: Names = same_layers(whole.graph, stage.layers, self.graph)

    def on_dla(self, devices: Sequence[Optional[str]]) -> List[bool]:
        return [devices[i] not in (None, "GPU") for i in self.stage.layers]


def _planned(
    part: _Part,
    devices: Sequence[Optional[str]],
    scales: Mapping[str, float],
    formats: Mapping[str, IoFormat],
    precisions: Mapping[str, str],
    engines: int,
) -> BuildPlan:
    whole, graph = part.whole, part.graph
    device = part.stage.device
    placed = {layer.name: devices[i] for i, layer in zip(part.stage.layers, graph.layers)}
    report = check_graph(graph, whole.platform, whole.precision, "standalone" if whole.mode == "standalone" else "fallback")
    options = replace(
        whole.options,
        dla_core=int(device[3:]) if device != "GPU" else whole.options.dla_core,
        placed={name: where for name, where in placed.items() if where is not None},
        devices={},
        precisions={part.names.layers[k]: v for k, v in precisions.items() if k in part.names.layers},
        input_formats=(),
        output_formats=(),
        formats={n: f for n, f in formats.items() if n in (*graph.inputs, *graph.outputs)},
        concurrent_engines=whole.options.concurrent_engines * engines,
    )
    calibration = replace(whole.calibration, absmax=scales)
    return make_plan(graph, report, mode=whole.mode, calibration=calibration, options=options)


def engines_that_share_sram(platform: Platform, stages: Sequence[StageLayers], stage: StageLayers) -> int:
    """Number of stages that share the SRAM of the stage's core (Orin) or chip (Xavier); all are loaded at once."""
    shared = platform.module.sram_shared
    return sum(s.device != "GPU" and (shared or s.device == stage.device) for s in stages) or 1


def _network_io(graph: LayerGraph, stages: Sequence[StagePlan]) -> Tuple[IoPlan, ...]:
    plans: Dict[str, IoPlan] = {}
    for name, is_input in (*((n, True) for n in graph.inputs), *((n, False) for n in graph.outputs)):
        for stage in stages:
            for io in stage.plan.io:
                if io.name == name and io.is_input == is_input:
                    plans.setdefault(name, io)
    missing = [n for n in (*graph.inputs, *graph.outputs) if n not in plans]
    if missing:
        raise BuildError(f"no stage has the network's tensor {missing[0]!r}", where=graph.name)
    return tuple(plans[n] for n in (*graph.inputs, *graph.outputs))


def _check_borders(name: str, chain: ChainPlan) -> None:
    """Checks that each stage reads only tensors written before it, and in the same type and format."""
    available = {io.name: io for io in chain.io if io.is_input}
    for stage in chain.stages:
        for io in stage.plan.inputs:
            made = available.get(io.name)
            if made is None or replace(made, is_input=True) != io:
                mismatch = "nothing before it makes it" if made is None else f"{made.dtype} {made.format} before it"
                raise BuildError(
                    f"stage {stage.plan.model['name']} reads {io.name!r} as {io.dtype} {io.format}: {mismatch}", where=name
                )
        available.update((io.name, io) for io in stage.plan.outputs)


def _notes(chain: ChainPlan, stages: Sequence[StageLayers], regions: Sequence[Sequence[int]]) -> Tuple[str, ...]:
    devices = ", ".join(s.device for s in chain.stages)
    notes: Dict[str, None] = {f"a chain of {len(chain.stages)} engines, one per stage: {devices}": None}
    of_layer = {i: k for k, stage in enumerate(stages) for i in stage.layers}
    placed = [0] * len(stages)
    for region in regions:
        placed[of_layer[region[0]]] += 1
    formed = [len(stage.plan.regions) for stage in chain.stages]
    if formed != placed:
        differing = ", ".join(f"stage {k}: {a} for {b}" for k, (a, b) in enumerate(zip(formed, placed)) if a != b)
        notes[f"TensorRT forms other loadables in the stages than were placed ({differing})"] = None
    common = set.intersection(*(set(stage.plan.notes) for stage in chain.stages))
    for k, stage in enumerate(chain.stages):
        notes.update(dict.fromkeys(n if n in common else f"stage {k}: {n}" for n in stage.plan.notes))
    return tuple(notes)
