"""An engine file without an artifact, as trtexec and Ultralytics write it, as an Artifact for the runners."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple, Union

from edgedla.builder.artifact.artifact import BARE_ENGINE, Artifact, ArtifactFile, Binding
from edgedla.builder.artifact.load import load_artifact
from edgedla.errors import DocumentError, EdgedlaError, EnvironmentMissing, UsageError
from edgedla.formats import TensorFormat, layout
from edgedla.io.files import sha256_of
from edgedla.records.engine_info import EngineInfo, parse_engine_info
from edgedla.records.json_text import parse_json
from edgedla.records.plan_header import PlanHeader, engine_bytes, engine_header
from edgedla.records.ultralytics import UltralyticsMetadata, ultralytics_metadata
from edgedla.runtime.runners.engine_reader import Tensor, import_tensorrt, read_with_tensorrt

if TYPE_CHECKING:
    from edgedla.targets.board import Board

UNKNOWN_PRECISION = "unknown"


def open_built(path: Union[str, Path], *, model: Union[None, str, Path] = None) -> Artifact:
    """An artifact's folder as `load_artifact` reads it, or an engine's file as `read_engine` does.

    Args:
        model: the ONNX file that the artifact must have been built from; an engine does not state it.

    Raises:
        DocumentError, EnvironmentMissing, RunError, UsageError: as for these two.
    """
    header = _header(Path(path))
    if header is None:
        return load_artifact(path, model=model)
    if model is not None:
        raise UsageError(
            "an engine alone does not say which model it was built from",
            where=str(path),
            allowed="the artifact that `edgedla build` made",
        )
    return read_engine(Path(path), header)


def metadata_of(artifact: Artifact) -> Optional[UltralyticsMetadata]:
    """Ultralytics' metadata before the engine; None for every other artifact."""
    return ultralytics_metadata(artifact.model.get("metadata"), str(artifact.model.get("file", "")))


def read_engine(path: Path, header: PlanHeader) -> Artifact:
    """An engine as an artifact of kind "engine", with the bindings and devices that TensorRT reports.

    Deserialising an engine runs code of whoever built it, and without a manifest its origin is unknown.

    Raises:
        EnvironmentMissing: not a Jetson, or no TensorRT.
        RunError: TensorRT refuses the engine.
        DocumentError: the engine has open dims, an unsupported format, or invalid metadata.
    """
    # Late: bundles do not need it, because their artifacts state their module.
    from edgedla.targets import module_for
    from edgedla.targets.board import this_board

    board = this_board()
    trt = _tensorrt(path, board)
    metadata = ultralytics_metadata(header.metadata, str(path))
    core = metadata.dla_core if metadata is not None else None
    written = f"TensorRT {header.version or 'of another release'} wrote it"
    contents = read_with_tensorrt(trt, engine_bytes(path), core, str(path), written)
    placement, notes = _devices(_layers(contents.layers), core)
    module = module_for(board.target) if board is not None and board.target else None
    chip = module.chip if module is not None else None
    return Artifact(
        kind=BARE_ENGINE,
        backend="tensorrt",
        simulated=False,
        model={"name": path.stem, "sha256": None, "file": path.name, "metadata": header.metadata},
        platform={
            "target": module.id if module is not None else None,
            "chip": chip,
            "dla_cores": module.dla_cores if module is not None else 0,
            "trt": contents.version,
            "jetpack": board.jetpack if board is not None else None,
        },
        software={"tensorrt": contents.version},
        precision=(metadata.precision if metadata is not None else None) or UNKNOWN_PRECISION,
        bindings=tuple(_binding(tensor, chip, str(path)) for tensor in contents.tensors),
        placement_predicted={},
        placement_real=placement,
        notes=notes,
        files=(ArtifactFile("engine", path.name, sha256_of(path), path.stat().st_size),),
        folder=path.parent,
    )


def _header(path: Path) -> Optional[PlanHeader]:
    if not path.is_file():
        return None
    try:
        return engine_header(path)
    except OSError as e:
        raise DocumentError(f"cannot read it: {e.strerror or e}", where=str(path)) from e


def _tensorrt(path: Path, board: Optional[Board]) -> Any:
    hint = (
        "copy it to the Jetson that built it, or add --board NAME; here `edgedla inspect` reads its header, and "
        "`edgedla build MODEL.onnx --backend host -o ARTIFACT` makes what runs on this machine"
    )
    if board is None:
        raise EnvironmentMissing("a TensorRT engine runs on a Jetson, and this is not one", where=str(path), hint=hint)
    return import_tensorrt(str(path))


def _binding(tensor: Tensor, chip: Optional[str], where: str) -> Binding:
    name, is_input, dims, dtype, form = tensor
    if any(d < 1 for d in dims):
        shape = "x".join("?" if d < 1 else str(d) for d in dims)
        raise DocumentError(
            f"{name} has open dims: {shape}",
            where=where,
            allowed="an engine of one shape",
            hint="build it for one (trtexec --shapes, or without `dynamic` in Ultralytics' export); a DLA takes nothing else",
        )
    if form not in TensorFormat.__members__:
        raise DocumentError(
            f"{name} has the format {form}",
            where=where,
            allowed=", ".join(TensorFormat.__members__),
            hint="build the engine with --inputIOFormats and --outputIOFormats of one of these",
        )
    try:
        memory = layout(TensorFormat(form), dtype, dims, chip=chip)
    except UsageError as e:
        raise DocumentError(f"{name}: {e.what}", where=where, allowed=e.allowed, hint=e.hint) from e
    return Binding(name, is_input, tuple(dims), dtype, form, memory.size_bytes, memory.strides_bytes)


def _layers(text: str) -> Optional[EngineInfo]:
    """The inspector's JSON; None if it cannot be read."""
    try:
        return parse_engine_info(parse_json(text.encode("utf-8", "replace")), "inspector output")
    except (ValueError, RecursionError, EdgedlaError):
        return None


def _devices(info: Optional[EngineInfo], core: Optional[int]) -> Tuple[Optional[Dict[str, str]], Tuple[str, ...]]:
    """(engine layer -> device, notes); None if it is unknown whether a DLA is used.

    Args:
        core: the core in the metadata.
    """
    dla = f"DLA{core or 0}"
    if info is None or not info.layers or (info.undecided and not info.dla_nodes):
        if core is not None:
            return {"the engine": dla}, ()
        return None, ("the engine does not say which layers run on a DLA: build it with --profilingVerbosity=detailed",)
    return {layer.name: dla if layer.device == "DLA" else "GPU" for layer in info.layers}, ()
