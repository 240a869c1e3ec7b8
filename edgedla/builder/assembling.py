"""What every backend fills into an artifact alike: the manifest's fields and the bindings."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from edgedla.builder.artifact import Artifact, Binding
from edgedla.builder.plan import BuildPlan
from edgedla.formats import TensorFormat, layout


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
        notes = (
            "simulated: ONNX Runtime with the DLA's precision put in; no number here was measured on a DLA",
            *notes,
        )
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
        placement_predicted={layer.name: layer.device for layer in plan.layers},
        placement_real=real,
        accuracy=accuracy,
        notes=notes,
    )


def bindings_of(plan: BuildPlan) -> Tuple[Binding, ...]:
    """The buffers at the border, with sizes and strides of their formats."""
    found = []
    for io in plan.io:
        chip = str(plan.platform["chip"])
        lies = layout(TensorFormat(io.format), io.dtype, io.shape_nchw, chip=chip, gpu_fallback=plan.gpu_fallback)
        strides = dict(zip(("n", "c", "h", "w"), lies.stride_bytes_nchw))
        found.append(
            Binding(io.name, io.is_input, io.shape_nchw, io.dtype, io.format, lies.size_bytes, strides, io.scale)
        )
    return tuple(found)
