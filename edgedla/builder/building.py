"""`build`: from a model to an artifact, on the device with TensorRT or anywhere with the host backend."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from platform import machine
from typing import Iterator, Optional, Tuple, Union

from edgedla.arguments import typed
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.of_plan import Contents, artifact_of
from edgedla.builder.artifact.store import folder_lock, output_folder, own_folder, save_artifact
from edgedla.builder.chain.build import build_chain
from edgedla.builder.chain.plan import ChainPlan, WholeNetwork, plan_chain
from edgedla.builder.decoder import decoder_contents, decoder_notes
from edgedla.builder.existing_artifact import existing_artifact, finished, rests_on, tell
from edgedla.builder.host.limits import require_simulable
from edgedla.builder.onnx_source import OnnxSource
from edgedla.builder.own_types import require_fp32, types_named
from edgedla.builder.plan.devices import devices_of
from edgedla.builder.plan.explained import explained
from edgedla.builder.plan.from_quantization import forced_notes, pictures_of, report_of, samples_without_scales, with_quantization
from edgedla.builder.plan.int8_scales import calibrate
from edgedla.builder.plan.legality import refuse_dynamic
from edgedla.builder.plan.make_plan import make_plan
from edgedla.builder.plan.measured_scales import Explain
from edgedla.builder.plan.plan import BuildPlan, Calibration
from edgedla.builder.request import BuildRequest, Model, Say, preprocess_of, resolved
from edgedla.builder.trtexec.files import Scripts, scripts_of
from edgedla.errors import BuildError, EnvironmentMissing, UsageError
from edgedla.graph import LayerGraph
from edgedla.importers.model_file.onnx_file import require_model_file
from edgedla.preprocess.settings import with_embedded
from edgedla.quantization.calibration_cache import write_cache
from edgedla.quantization.numerics import departures
from edgedla.quantization.samples import Samples
from edgedla.regions import CheckReport
from edgedla.regions.float16_model import AS_FP16
from edgedla.targets.board import board_facts
from edgedla.vocabulary import GPU

#: Kept between builds of one folder: TensorRT's timings, measured ranges, and the log of a build that failed.
WORK = ".work"
#: In it: the model as FLOAT16, where a strongly typed release builds it so.
CONVERTED = "built.onnx"


@typed
def plan_build(model: Model, request: BuildRequest, *, work: Optional[Path] = None, say: Optional[Say] = None) -> BuildPlan:
    """Makes the plan of a build. Builds and writes nothing, except measured INT8 ranges into `work`.

    Raises:
        UsageError, ModelError, BuildError (an illegal plan), EnvironmentMissing (INT8 without onnxruntime or scales).
    """
    plans = plan_stages(model, request, work=work, say=say)
    if len(plans) > 1:
        raise BuildError(f"the placement makes a chain of {len(plans)} engines, with one plan per stage", hint="call plan_stages")
    return plans[0]


@typed
def plan_stages(
    model: Model, request: BuildRequest, *, work: Optional[Path] = None, say: Optional[Say] = None
) -> Tuple[BuildPlan, ...]:
    """Makes the plans of a build: one, or one per stage of a chain if the placement uses both DLA cores.

    Raises:
        As `plan_build`.
    """
    request = resolved(request)
    with as_file(model) as path:
        planned = _plan(OnnxSource(path), request, work, say, weights=False)
        return tuple(s.plan for s in planned.stages) if isinstance(planned, ChainPlan) else (planned,)


@typed
def write_scripts(model: Model, out: Union[str, Path], request: BuildRequest, *, say: Optional[Say] = None) -> Scripts:
    """Writes scripts for trtexec: one, or one per stage of a chain with the stage's ONNX file beside it.

    Args:
        out: the script's name, which ends in .sh, or a folder for `build.sh`; for a chain a folder.

    Raises:
        As `build`.
    """
    request = resolved(request)
    samples_without_scales(request, simulated=False)
    with as_file(model) as path:
        source, script = OnnxSource(path), Path(out)
        folder = script if script.suffix != ".sh" or script.is_dir() else script.parent
        written = folder / f"{path.stem}.{CONVERTED}"
        plan = _plan(source, request, None, say, converted=written)
        return scripts_of(plan, script, written if source.converted else None)


def build(
    model: Model,
    out: Union[str, Path],
    request: BuildRequest,
    *,
    say: Optional[Say] = None,
    explain: Optional[Explain] = None,
    samples: Optional[Samples] = None,
) -> Artifact:
    """Plans and builds, and saves the artifact in one step: until it is whole, `out` holds what it held before.

    Args:
        model: path of an ONNX file, its bytes, or a ModelProto.
        out: folder for the artifact.
        say: called with one line per phase.
        explain: makes the artifact's report of INT8 scales that were measured on samples.
        samples: inputs for measuring a simulated artifact's error; None takes the request's.

    Raises:
        UsageError, ModelError, BuildError, EnvironmentMissing, RunError.
    """
    folder, request = Path(out), resolved(request)
    with as_file(model) as path:
        # Fails here, before anything is calibrated or written, if this machine cannot build.
        backend = backend_of(request.backend)
        if backend != "host" and departures(request.options.numerics):
            raise UsageError("numerics are chosen for the simulation alone", where="numerics", allowed="--backend host")
        samples_note = samples_without_scales(request, simulated=backend == "host")
        if samples_note:
            tell(say, samples_note)
        work = folder / WORK
        with output_folder(folder), _alone(folder), _while_built(work / CONVERTED) as converted:
            source = OnnxSource(path)
            request = replace(request, preprocess=with_embedded(pictures_of(request), source.embedded))
            plan = _plan(source, request, work, say, simulated=backend == "host", converted=converted)
            if source.halved is not None:
                tell(say, f"{AS_FP16}: {source.halved.text}")
            if isinstance(plan, ChainPlan):
                return build_chain(plan, source, folder, work, backend, request, _build_one, say, explain, samples)
            key = rests_on(backend, request)
            done = existing_artifact(folder, work, plan.to_json(), backend, source.identity, key, request, say)
            if done is not None:
                return done
            tell(say, f"building with the {backend} backend")
            artifact, contents = _build_one(plan, source, work, backend, request, say, samples)
            contents.update({**decoder_contents(source), **explained(explain, source.scales, artifact, request)})
            whole = replace(
                artifact,
                model=source.identity,
                board=board_facts(),
                preprocess=preprocess_of(request),
                notes=(*artifact.notes, *decoder_notes(source)),
            )
            saved = save_artifact(whole, folder, contents)
            finished(work, key)
            return saved


def _build_one(
    plan: BuildPlan,
    source: OnnxSource,
    work: Path,
    backend: str,
    request: BuildRequest,
    say: Optional[Say],
    samples: Optional[Samples] = None,
) -> Tuple[Artifact, Contents]:
    """Builds one engine and returns its artifact and files.

    Args:
        samples: inputs for measuring a simulated artifact's error; None takes the request's.
    """
    if backend == "tensorrt":
        from edgedla.builder.tensorrt.backend import build_on_device

        artifact, contents = build_on_device(plan, source.path, work, allow_drift=request.allow_drift, say=say)
    else:
        artifact, contents = _build_on_host(plan, source, request, samples, say)
    contents[("plan", "plan.json")] = plan.to_json().encode()
    contents.update(report_of(request))
    artifact = replace(artifact, notes=(*artifact.notes, *forced_notes(request)))
    if plan.calibration.absmax:
        contents[("calibration", "calib.cache")] = write_cache(plan.calibration.absmax, plan.trt).encode()
    return artifact, contents


def _plan(
    source: OnnxSource,
    request: BuildRequest,
    work: Optional[Path],
    say: Optional[Say],
    weights: bool = True,
    simulated: bool = False,
    converted: Optional[Path] = None,
) -> Union[BuildPlan, ChainPlan]:
    """
    Args:
        converted: file for the model as FLOAT16, where it is built so; None: nothing reads it.
    """
    from edgedla.graph.open_sizes import TRTEXEC_BATCH
    from edgedla.importers import load_onnx
    from edgedla.regions import check_graph
    from edgedla.targets import platform_for

    platform = platform_for(request.target, jetpack=request.jetpack, trt=request.trt)
    check_mode = "standalone" if request.mode == "standalone" else "fallback"
    borders = "strict" if check_mode == "fallback" and request.options.reformat_free else check_mode
    source.convert(platform, borders, request.shapes, request.batch, converted)
    graph = load_onnx(source.file, trt=platform.release.trt, shapes=request.shapes, batch=request.batch, open_batch=TRTEXEC_BATCH)
    refuse_dynamic(graph)
    if simulated:
        require_simulable(graph)
    request = with_quantization(request, source.path, source.identity, platform)
    pictures = with_embedded(request.preprocess, source.embedded)
    options, model = request.options, None
    if request.placement is not None:
        from edgedla.builder.plan.from_placement import placed_model

        model = placed_model(request.placement, graph, platform, request.precision)
        options = replace(options, placed={layer.name: layer.device for layer in model.running})
    chained = model is not None and len({*devices_of(graph, options)} - {None, GPU}) > 1
    calibration = Calibration()
    calibrated = request.precision == "int8" and not platform.release.strongly_typed
    if (request.precision == "int8" and simulated) or (calibrated and request.calib is None):
        require_fp32(graph, source.path, platform)
    if calibrated:
        with types_named(source, request.precision, platform):
            calibration = calibrate(source, graph, request.calib, request.calib_data, request.calib_method, pictures, work, say)
    if model is not None and chained:
        from edgedla.builder.onnx_input import load_model

        proto = load_model(source.path, weights=weights)
        whole = WholeNetwork(proto, graph, platform, request.precision, request.mode, calibration, options)
        return plan_chain(whole, [region.layers for region in model.regions])
    report: CheckReport = check_graph(graph, platform, request.precision, check_mode)
    return make_plan(
        graph, report, mode=request.mode, calibration=calibration, options=options, dynamic_inputs=source.dynamic_inputs
    )


def backend_of(requested: str) -> str:
    """The backend that "auto" means here: TensorRT on a Jetson, the simulation elsewhere.

    Raises:
        EnvironmentMissing: this looks like a Jetson, but TensorRT cannot build here. A silent simulation would mislead.
    """
    if requested != "auto":
        return requested
    from edgedla.builder.tensorrt.bindings import bindings_remedy, dla_cores, installed_version, why_missing
    from edgedla.targets.jetson import BOARD_VARIABLE, on_jetson

    simulate = "--backend host simulates it"
    if on_jetson():
        if installed_version():
            return "tensorrt"
        raise EnvironmentMissing(
            f"this is a Jetson, but TensorRT's Python bindings cannot be imported: {why_missing()}",
            hint=f"{bindings_remedy()}; `edgedla doctor` checks the rest; {simulate}",
        )
    # TensorRT for PCs reports no DLA cores, so cores mean a Jetson.
    if machine() == "aarch64" and dla_cores():
        raise EnvironmentMissing(
            "this looks like a Jetson in a container: TensorRT sees DLA cores, but the board's files are hidden",
            hint="start the container with -v /etc/nv_tegra_release:/etc/nv_tegra_release:ro, or point "
            f"{BOARD_VARIABLE} at copies of the board's files; {simulate}",
        )
    return "host"


def _build_on_host(
    plan: BuildPlan, source: OnnxSource, request: BuildRequest, samples: Optional[Samples], say: Optional[Say]
) -> Tuple[Artifact, Contents]:
    from edgedla.builder.host.accuracy import check_samples
    from edgedla.builder.host.backend import build_host
    from edgedla.targets import platform_for

    platform = platform_for(*(plan.platform[name] for name in ("target", "jetpack", "trt")))
    shapes = {io.name: io.shape_nchw for io in plan.inputs}
    static = source.static(shapes)
    with types_named(source, plan.precision, platform):
        checked = samples or check_samples(static, request.calib_data, request.preprocess)
        built = build_host(plan, static, checked, say, source.original(shapes))
    artifact = artifact_of(plan, "host", {"onnxruntime": built.version}, (*plan.notes, *built.notes), built.accuracy)
    return artifact, {("host_model", "model.onnx"): built.data}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the folder against other builds, which would remove or reuse the files of this build.

    Raises:
        BuildError: another build writes into the folder.
    """
    with ExitStack() as held:
        # A read-only folder needs no lock: nothing in it can be overwritten, and it may already hold this same build.
        with suppress(OSError):
            own_folder(folder / WORK)
            held.enter_context(folder_lock(folder, f"{WORK}/.lock"))
        yield


@contextmanager
def _while_built(file: Path) -> Iterator[Path]:
    """A file that only the build reads: gone afterwards, so that a refused plan leaves nothing."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.unlink()


@contextmanager
def as_file(model: Model) -> Iterator[Path]:
    """A path for a model given as path, bytes or ModelProto; the latter two go to a temporary file.

    Raises:
        ModelError: the file does not exist.
        UsageError: something else, such as a LayerGraph, which has no weights.
    """
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        require_model_file(path)
        yield path
        return
    import tempfile

    if not isinstance(model, bytes) and not hasattr(model, "SerializeToString"):
        raise UsageError(
            f"a {type(model).__name__} cannot be built",
            allowed="path of an ONNX file, its bytes, or a ModelProto",
            hint="a LayerGraph holds no weights: it can be checked and placed" if isinstance(model, LayerGraph) else None,
        )
    data = model if isinstance(model, bytes) else model.SerializeToString()
    with tempfile.TemporaryDirectory(prefix="edgedla-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        yield path
