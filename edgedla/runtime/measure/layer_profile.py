"""Times of a built network's layers from TensorRT's profiler: in trtexec's form, or as a profile by signature."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.plan.plan import BuildPlan, LayerPlan, plan_from_dict
from edgedla.costs.model import CostModel
from edgedla.costs.profile import Profile, read_json
from edgedla.costs.trt_profile import LayerTime, assign
from edgedla.errors import DocumentError, EnvironmentMissing, RunError, UsageError
from edgedla.graph import Layer, LayerGraph
from edgedla.records.engine_info import EngineInfo, parse_engine_info
from edgedla.runtime.measure.timing import BenchOptions
from edgedla.runtime.runners.base import Runner
from edgedla.runtime.runners.chain import ChainRunner
from edgedla.runtime.runners.layer_clock import LayerTimes
from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner
from edgedla.targets import platform_for
from edgedla.targets.board import this_board

SOURCE = "edgedla bench"


@dataclass(frozen=True)
class EngineTimes:
    """The times of one engine's layers.

    Attributes:
        device: where it ran. stage: its number in a chain, None for a single engine.
        artifact: of the engine.
    """

    device: str
    stage: Optional[int]
    artifact: Artifact
    times: LayerTimes


def check_has_layers(artifact: Artifact) -> None:
    """Raises UsageError if running the artifact cannot give layer times of a Jetson."""
    where = str(artifact.folder or artifact.model.get("name"))
    parts = [stage.artifact for stage in artifact.stages] or [artifact]
    if artifact.simulated or any(part.backend != "tensorrt" for part in parts):
        raise UsageError(
            "the artifact is simulated: its layers' times on this machine say nothing of a Jetson",
            where=where,
            allowed="an artifact built with TensorRT",
            hint="build and profile it on the board: edgedla build --backend tensorrt",
        )
    if any(part.kind == "standalone" for part in parts):
        raise UsageError(
            "a DLA loadable runs as a whole: cuDLA reports no layer times",
            where=where,
            allowed="a hybrid artifact",
            hint="profile the same model built with --mode hybrid: TensorRT reports the time of each DLA node",
        )


def measure_layers(runner: Runner, inputs: Dict[str, np.ndarray], options: BenchOptions) -> Tuple[EngineTimes, ...]:
    """Runs frames one at a time with TensorRT's profiler attached, for as long as `bench` times them.

    The profiler slows inferences, so these runs are separate from the timed ones (like trtexec's --separateProfileRun). The
    first inference is not counted.

    Args:
        runner: a TensorRtRunner, or a chain of them; nobody else may submit to it meanwhile.

    Raises:
        UsageError: another kind of runner. RunError: an inference failed, or TensorRT reports no layer.
    """
    chain = isinstance(runner, ChainRunner)
    parts: Sequence[Runner] = runner.runners if isinstance(runner, ChainRunner) else (runner,)
    engines = [part for part in parts if isinstance(part, TensorRtRunner)]
    if len(engines) != len(parts):
        raise UsageError("it reports no layer times", where=runner.name, allowed="an artifact built with TensorRT, hybrid")
    started: List[TensorRtRunner] = []
    try:
        for engine in engines:
            started.append(engine)
            engine.start_profile()
        runner.wait(runner.submit(inputs))
        for engine in engines:
            engine.restart_profile()
        count, end = 0, time.monotonic() + options.duration_s
        while count < max(1, options.iterations) or time.monotonic() < end:
            runner.wait(runner.submit(inputs))
            count += 1
    finally:
        by_engine = [engine.stop_profile() for engine in started]
    for engine, times in zip(engines, by_engine):
        if not times.times_ms:
            raise RunError(
                "TensorRT reports no layer times",
                where=engine.name,
                hint="build the engine with --profilingVerbosity=detailed, as `edgedla build` does",
            )
    return tuple(
        EngineTimes(engine.name, k if chain else None, engine.artifact, times)
        for k, (engine, times) in enumerate(zip(engines, by_engine))
    )


def trtexec_profile(engines: Sequence[EngineTimes]) -> str:
    """The text of trtexec's --exportProfile, in milliseconds; entries of a chain name their stage."""
    whole = sum(sum(ms) for e in engines for ms in e.times.times_ms.values())
    entries: List[Dict[str, Any]] = [{"count": engines[0].times.count}]
    for e in engines:
        for name, ms in e.times.times_ms.items():
            entry: Dict[str, Any] = {
                "name": name,
                "timeMs": round(sum(ms), 6),
                "averageMs": round(sum(ms) / e.times.count, 6),
                "medianMs": round(statistics.median(ms), 6),
                "percentage": round(100 * sum(ms) / whole, 4) if whole > 0 else 0.0,
            }
            if e.stage is not None:
                entry.update(stage=e.stage, device=e.device)
            entries.append(entry)
    return "[\n  " + ",\n  ".join(json.dumps(entry) for entry in entries) + "\n]\n"


def layer_info(artifact: Artifact) -> str:
    """The engine inspector's JSON from the build; for a chain, the layers of all stages, each with its stage.

    Raises:
        DocumentError: the artifact has none.
    """
    if not artifact.stages:
        return _layers_file(artifact).read_text(encoding="utf-8")
    layers: List[Any] = []
    for k, stage in enumerate(artifact.stages):
        path = _layers_file(stage.artifact)
        document = read_json(path)
        parse_engine_info(document, str(path))
        entries = document["Layers"] if isinstance(document, Mapping) else document
        layers += [{**e, "Stage": k} if isinstance(e, Mapping) else e for e in entries]
    document = {"Layers": layers, "Bindings": [b.name for b in artifact.bindings]}
    return json.dumps(document, indent=1) + "\n"


def _layers_file(artifact: Artifact) -> Path:
    if not artifact.has("layers"):
        raise DocumentError(
            "the artifact has no engine inspector's output",
            where=str(artifact.folder),
            hint="it comes with what TensorRT builds with --mode hybrid; host artifacts and loadables have none",
        )
    return artifact.file("layers")


def cost_model_here(artifact: Artifact, power_mode: Optional[str] = None) -> CostModel:
    """The cost model of the module that the artifact was built for, in this board's power mode.

    Args:
        power_mode: used if the board does not report its mode, or one that edgedla does not know.

    Raises:
        EnvironmentMissing: not a Jetson, or an unknown power mode.
        UsageError: the board is in another mode than `power_mode`, or the module has no such mode.
    """
    platform = platform_for(str(artifact.platform["target"]), trt=str(artifact.platform["trt"]))
    module, board = platform.module, this_board()
    if board is None:
        raise EnvironmentMissing(
            f"this is not a Jetson: times measured here are not those of {module.id}",
            where="--onnx",
            hint="profile it on the board; without --onnx the times are written as trtexec writes them",
        )
    if not module.power_modes:
        return CostModel.load(platform, artifact.precision)
    mode = board.mode_of(module)
    if mode is None and power_mode is None:
        raise EnvironmentMissing(
            f"power mode {board.power_mode or 'unknown'}: times hold for a mode whose clocks are known",
            where=module.id,
            allowed=", ".join(module.power_modes),
            hint="say which it is: --power-mode NAME",
        )
    if mode is None:
        return CostModel.load(platform, artifact.precision, power_mode)
    if mode.name in module.power_modes and power_mode not in (None, mode.name):
        raise UsageError(f"the board is in power mode {mode.name}", where="--power-mode", allowed=mode.name)
    if mode.name in module.power_modes or power_mode is not None:
        return CostModel.load(platform, artifact.precision, power_mode or mode.name)
    # A mode that is not on record, with its caps: later JetPack images add modes.
    modes = {**module.power_modes, mode.name: mode}
    return CostModel.load(replace(platform, module=replace(module, power_modes=modes)), artifact.precision, mode.name)


def check_shapes(artifact: Artifact, graph: LayerGraph) -> None:
    """Raises UsageError if the network with the given shapes is not the one that was built."""
    for b in artifact.inputs:
        tensor = graph.tensors.get(b.name)
        dims = tuple(tensor.dims) if tensor is not None else None
        if dims != tuple(b.shape_nchw):
            raise UsageError(
                f"input {b.name} is {'x'.join(str(d) for d in dims) if dims else 'not there'}",
                where="--shapes",
                allowed="x".join(str(d) for d in b.shape_nchw) + ", as it was built",
            )


def measured_profile(engines: Sequence[EngineTimes], graph: LayerGraph, model: CostModel) -> Profile:
    """The times by signature of the network's operators, in the form that `edgedla place --profile` reads.

    A DLA node's time is split among its operators in proportion to `model`, and their spread includes that.

    Args:
        graph: the network that was built. model: from `cost_model_here`.

    Raises:
        DocumentError: no engine layer belongs to the network, or a stage's plan is invalid.
    """
    profiles: List[Profile] = []
    refused: List[DocumentError] = []
    lost: List[Tuple[str, float]] = []
    for e in engines:
        times = tuple(
            LayerTime(name, sum(ms) / e.times.count, statistics.median(ms), statistics.pstdev(ms))
            for name, ms in e.times.times_ms.items()
        )
        names = None if e.stage is None else stage_names(plan_of(e.artifact), graph)
        try:
            profiles.append(assign(times, graph, model, _info(e.artifact), e.device, SOURCE, names))
        except DocumentError as error:
            refused.append(error)
            lost += [(t.name, t.time_us) for t in times]
    if not profiles:
        raise refused[0]
    return replace(
        profiles[0],
        measurements=tuple(m for p in profiles for m in p.measurements),
        unresolved=(*(u for p in profiles for u in p.unresolved), *lost),
    )


def stage_names(plan: BuildPlan, graph: LayerGraph) -> Dict[str, str]:
    """Layer of a chain's stage -> its name in the whole network; layers whose name is unknown are missing.

    TensorRT numbers unnamed layers anew in each stage. An ONNX node is never cut, so its layers are the same in the same
    order, and a tensor that it writes has the same name in both.
    """
    whole: Dict[str, List[Layer]] = {}
    layers_of: Dict[str, List[LayerPlan]] = {}
    for layer in graph.layers:
        whole.setdefault(layer.onnx_node, []).append(layer)
    for planned in plan.layers:
        layers_of.setdefault(planned.onnx_node, []).append(planned)
    names: Dict[str, str] = {}
    for node, layers in layers_of.items():
        whole_layers = whole.get(node, [])
        same = [x.type for x in layers] == [x.type for x in whole_layers]
        if same and any(set(x.outputs) & set(y.outputs) for x, y in zip(layers, whole_layers)):
            names.update((x.name, y.name) for x, y in zip(layers, whole_layers))
    return names


def plan_of(artifact: Artifact) -> BuildPlan:
    """The plan that the artifact was built from. Raises DocumentError: it has none."""
    path = artifact.file("plan")
    return plan_from_dict(read_json(path), str(path))


def _info(artifact: Artifact) -> Optional[EngineInfo]:
    if not artifact.has("layers"):
        return None
    path = artifact.file("layers")
    return parse_engine_info(read_json(path), str(path))
