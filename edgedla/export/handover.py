"""The facts of one model that another runtime needs: files, bindings, placement, pictures; from an artifact or a placement."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.builder.artifact.load import load_artifact
from edgedla.errors import DocumentError, ModelError, UsageError
from edgedla.graph.open_sizes import open_inputs
from edgedla.importers import load_onnx
from edgedla.io.files import sha256_of
from edgedla.placement.result.document import read_placement
from edgedla.placement.result.placement import PlacedModel, Placement
from edgedla.preprocess.settings import PreprocessSettings, taken
from edgedla.runtime.decode.make_decoder import DecodeOptions

#: Where to get a file that an artifact or placement lacks.
NO_ONNX = "the ONNX model (or give it: --onnx)"
NO_CACHE = "the calibration cache: edgedla quantize MODEL --data DATA -o SCALES"


@dataclass(frozen=True)
class LayerEntry:
    """Where one TensorRT layer runs. `forced`: no DLA could run it, so it falls back to the GPU anyway."""

    name: str
    device: str
    precision: str
    forced: bool = False


@dataclass(frozen=True)
class ExportRequest:
    """The user's request besides the artifact or placement.

    Attributes:
        onnx: the model; copied, after a check that it is the one that was built or placed.
        core: DLA core; None: the placement's, else 0.
        asked: preprocessing by field of PreprocessSettings, if the artifact does not state it.
        decode: kind, labels and thresholds, as for `run`.
        parser, parser_library: DeepStream's function that parses a detector's boxes, and its library.
    """

    onnx: Optional[Path] = None
    core: Optional[int] = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    parser: str = ""
    parser_library: str = ""


@dataclass(frozen=True)
class Handover:
    """One model for another runtime.

    Attributes:
        where: the artifact or placement, for messages. name: usable in file names.
        core: DLA core; None if no layer runs on a DLA.
        layers: placement by TensorRT's layer names; () if unknown.
        inputs, outputs: bindings of the engine; () from a placement, which does not state them.
        dims: dims of each input by name.
        trt: TensorRT release that the engine is built with.
    """

    where: str
    name: str
    precision: str
    core: Optional[int]
    layers: Tuple[LayerEntry, ...]
    inputs: Tuple[Binding, ...]
    outputs: Tuple[Binding, ...]
    dims: Mapping[str, Tuple[int, ...]]
    platform: Mapping[str, Any]
    trt: str
    preprocess: PreprocessSettings
    decode: DecodeOptions
    onnx: Optional[Path] = None
    engine: Optional[Path] = None
    calibration: Optional[Path] = None
    parser: str = ""
    parser_library: str = ""
    notes: Tuple[str, ...] = ()

    @property
    def onnx_name(self) -> str:
        return f"{self.name}.onnx"

    @property
    def batch(self) -> int:
        return int(next(iter(self.dims.values()))[0]) if self.dims else 1


def handovers(source: Union[str, Path], request: ExportRequest) -> List[Handover]:
    """The models of an artifact's folder or of a placement file.

    Raises:
        DocumentError: neither. UsageError: a chain, a loadable, a model over both cores, or another ONNX file.
    """
    path = Path(source)
    if path.is_dir():
        return [_of_artifact(load_artifact(path), str(source), request)]
    if not path.is_file():
        raise DocumentError("no such artifact or placement", where=str(source), allowed="a folder, or a placement's file")
    return _of_placement(read_placement(path), str(source), request)


def _of_artifact(artifact: Artifact, where: str, request: ExportRequest) -> Handover:
    if artifact.kind != "hybrid":
        what = {"chain": "a chain of engines", "standalone": "a DLA loadable"}[artifact.kind]
        raise UsageError(
            f"{what} runs in edgedla only: other runtimes load one TensorRT engine",
            where=where,
            allowed="an artifact built with --mode hybrid for one core",
        )
    layers = _planned(artifact)
    preprocess = taken(artifact.preprocess, dict(request.asked), where)
    cores = {d for d in artifact.placement_predicted.values() if d.startswith("DLA")}
    notes = ["the artifact is simulated and holds no engine: build it on the board"] if artifact.simulated else []
    return Handover(
        where,
        _file_name(str(artifact.model["name"])),
        artifact.precision,
        _core(cores, request),
        layers,
        artifact.inputs,
        artifact.outputs,
        {b.name: b.shape_nchw for b in artifact.inputs},
        artifact.platform,
        str(artifact.software.get("tensorrt") or artifact.platform.get("trt") or "unknown"),
        preprocess,
        request.decode,
        _checked_onnx(request.onnx, str(artifact.model.get("sha256") or ""), where),
        artifact.file("engine") if artifact.has("engine") else None,
        artifact.file("calibration") if artifact.has("calibration") else None,
        request.parser,
        request.parser_library,
        tuple(notes),
    )


def _planned(artifact: Artifact) -> Tuple[LayerEntry, ...]:
    """Layers of the plan, which has more of them than the manifest."""
    if not artifact.has("plan"):
        return ()
    plan = json.loads(artifact.file("plan").read_text(encoding="utf-8"))
    return tuple(
        LayerEntry(layer["name"], layer["device"], layer.get("precision") or artifact.precision, layer["capable"] == "gpu")
        for layer in plan.get("layers", ())
    )


def _of_placement(document: Placement, where: str, request: ExportRequest) -> List[Handover]:
    if request.onnx is not None and len(document.models) > 1:
        raise UsageError(f"the placement holds {len(document.models)} models", where="--onnx", allowed="a placement of one model")
    return [_of_placed(document, model, where, request) for model in document.models]


def _of_placed(document: Placement, model: PlacedModel, where: str, request: ExportRequest) -> Handover:
    layers = tuple(LayerEntry(layer.name, layer.device, document.precision, layer.why == "forced") for layer in model.running)
    cores = {layer.device for layer in layers if layer.device.startswith("DLA")}
    if len(cores) > 1:
        raise UsageError(
            f"it spreads {model.name} over {' and '.join(sorted(cores))}: one engine of another runtime uses one core",
            where=where,
            hint="place it with one core: edgedla place --devices GPU,DLA0",
        )
    return Handover(
        where,
        _file_name(model.name),
        document.precision,
        _core(cores, request),
        layers,
        (),
        (),
        model.inputs,
        document.platform,
        str(document.platform.get("trt") or "unknown"),
        PreprocessSettings(**dict(request.asked)),
        request.decode,
        _checked_onnx(request.onnx, model.sha256, where),
        parser=request.parser,
        parser_library=request.parser_library,
    )


def _core(cores: Set[str], request: ExportRequest) -> Optional[int]:
    if not cores:
        return None
    return request.core if request.core is not None else int(sorted(cores)[0][3:])


def _checked_onnx(onnx: Optional[Path], sha256: str, where: str) -> Optional[Path]:
    if onnx is None:
        return None
    if not onnx.is_file():
        raise ModelError("no such file", where=str(onnx))
    if sha256 and sha256_of(onnx) != sha256:
        raise UsageError(f"it is another model than that of {where}", where=str(onnx), allowed=f"sha256 {sha256[:12]}...")
    return onnx


def _file_name(name: str) -> str:
    """A model's name as folders, Triton and INI files allow it."""
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in name) or "model"


def carry(files: Files, missing: Dict[str, str], name: str, path: Optional[Path], how: str) -> None:
    """The file is written as `name`; without one, `how` says where to get it."""
    if path is not None:
        files[name] = path
    else:
        missing[name] = how


def linear_float(handover: Handover, runtime: str, dtypes: Sequence[str]) -> None:
    """Raises UsageError if a binding has a type or format that the runtime is not known to support."""
    for binding in (*handover.inputs, *handover.outputs):
        if binding.format != "LINEAR" or binding.dtype not in dtypes:
            raise UsageError(
                f"{binding.name} is {binding.dtype} {binding.format}: {runtime} is not known to handle it",
                where=handover.where,
                allowed=f"{' or '.join(dtypes)} in LINEAR format",
                hint="build without --input-formats and --output-formats",
            )


def scale_and_means(settings: PreprocessSettings, where: str, runtime: str) -> Tuple[float, Tuple[float, ...]]:
    """(factor, means) of y = factor * (x - mean), the only form that nvinfer supports.

    Raises:
        UsageError: std differs by channel, or pictures are cropped.
    """
    hint = "fold it into the model: edgedla fix MODEL --embed-preprocess mean=..,std=.. -o OUT, and build that"
    if len(set(settings.std)) > 1:
        std = ",".join(f"{v:g}" for v in settings.std)
        raise UsageError(
            f"std {std} differs by channel: {runtime} has one factor for all", where=where, allowed="one std", hint=hint
        )
    if settings.fit == "crop":
        raise UsageError(f"{runtime} does not crop to the input's shape", where=where, allowed="letterbox, stretch")
    return 1.0 / settings.std[0], settings.mean


def not_expressed(handover: Handover) -> List[str]:
    """The settings of these pictures that an nvinfer-based configuration cannot express."""
    if handover.preprocess.fit == "letterbox" and handover.preprocess.pad:
        return [f"the pixel value {handover.preprocess.pad} around a letterboxed picture: nvinfer pads with black"]
    return []


def open_sizes(handover: Handover) -> List[str]:
    """A note if the ONNX file leaves sizes open and the runtime builds its engine from it for a DLA."""
    if handover.onnx is None or handover.core is None:
        return []
    try:
        names = open_inputs(load_onnx(handover.onnx))
    except ModelError:
        # The runtime that builds from the file reports what is wrong with it.
        return []
    if not names:
        return []
    return [
        f"sizes of {', '.join(names)}, which the ONNX file leaves open: over a range of sizes an engine uses no DLA. "
        f"Build or place a file of fixed sizes: edgedla fix MODEL --batch {handover.batch} -o OUT, or --shapes"
    ]


Files = Dict[str, Union[str, Path]]


@dataclass(frozen=True)
class Export:
    """The files for one runtime.

    Attributes:
        files: name -> text, or the file to copy. missing: name -> what to put there, and how.
        read_by: releases that read it. steps: what to do on the board. not_expressed: settings that the runtime cannot express.
    """

    files: Files
    missing: Mapping[str, str]
    read_by: str
    steps: Tuple[str, ...]
    not_expressed: Tuple[str, ...] = ()
