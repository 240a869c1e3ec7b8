"""The part of an artifact that is the same for every backend: the manifest's fields and the bindings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.builder.artifact.load import load_artifact
from edgedla.builder.plan.plan import BuildPlan
from edgedla.errors import EdgedlaError
from edgedla.formats import TensorFormat, layout
from edgedla.identity import identity

#: Files of an artifact: (role, file name) -> content.
Contents = Dict[Tuple[str, str], bytes]


def already_built(folder: Path, plan: str, backend: str, source: Mapping[str, object]) -> Optional[Artifact]:
    """The artifact in the folder, if it is whole and of the same plan, model, backend and code."""
    try:
        artifact = load_artifact(folder)
        same_plan = artifact.file("plan").read_text(encoding="utf-8") == plan
    except (EdgedlaError, OSError):
        return None
    same_source = artifact.backend == backend and dict(artifact.model) == dict(source)
    # Other code may build the same plan differently.
    return artifact if same_plan and same_source and dict(artifact.identity) == identity().digests else None


def artifact_of(
    plan: BuildPlan,
    backend: str,
    software: Mapping[str, Optional[str]],
    notes: Tuple[str, ...],
    accuracy: Optional[Mapping[str, Any]],
    real: Optional[Mapping[str, str]] = None,
) -> Artifact:
    """The artifact of a plan, without its files."""
    host = backend == "host"
    if host:
        notes = ("simulated: ONNX Runtime with the DLA's precision put in; no number here was measured on a DLA", *notes)
    return Artifact(
        kind=plan.mode,
        backend=backend,
        simulated=host,
        model=plan.model,
        platform=plan.platform,
        software={
            "tensorrt": None,
            "onnxruntime": None,
            "jetpack": plan.platform.get("jetpack"),
            "dla_software": plan.platform.get("dla_software"),
            **software,
        },
        precision=plan.precision,
        bindings=bindings_of(plan),
        placement_predicted={layer.name: layer.device for layer in plan.running},
        placement_real=real,
        accuracy=accuracy,
        notes=notes,
        tool=identity().version,
        identity=identity().digests,
    )


def bindings_of(plan: BuildPlan) -> Tuple[Binding, ...]:
    """The buffers at the border, with sizes and strides of their formats."""
    bindings = []
    for io in plan.io:
        chip = str(plan.platform["chip"])
        buffer = layout(TensorFormat(io.format), io.dtype, io.shape_nchw, chip=chip, gpu_fallback=plan.gpu_fallback)
        strides = dict(zip(("n", "c", "h", "w"), buffer.stride_bytes_nchw))
        bindings.append(Binding(io.name, io.is_input, io.shape_nchw, io.dtype, io.format, buffer.size_bytes, strides, io.scale))
    return tuple(bindings)
