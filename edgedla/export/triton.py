"""Triton: a model repository for its TensorRT backend.

Fields: model_config.proto of triton-inference-server/common; DLA cores are `secondary_devices` of kind KIND_NVDLA, which only
the TensorRT backend reads.
"""

from __future__ import annotations

import json
from typing import Dict, List, Sequence

from edgedla.builder.artifact.artifact import Binding
from edgedla.errors import UsageError
from edgedla.export.handover import Export, Files, Handover, carry, linear_float

TYPES = {
    "FLOAT": "TYPE_FP32",
    "HALF": "TYPE_FP16",
    "INT8": "TYPE_INT8",
    "INT32": "TYPE_INT32",
    "INT64": "TYPE_INT64",
    "BOOL": "TYPE_BOOL",
    "UINT8": "TYPE_UINT8",
}
READ_BY = "Triton for Jetson whose TensorRT backend knows secondary_devices (server pull request 2912), of the engine's TensorRT"


def export(handover: Handover, number: int = 1) -> Export:
    """NAME/config.pbtxt and NAME/1/model.plan.

    Raises:
        UsageError: a placement, which states no outputs; or a binding that Triton is not known to support.
    """
    if not handover.outputs:
        raise UsageError(
            "a placement does not hold the model's outputs, which Triton's configuration names",
            where=handover.where,
            allowed="an artifact",
            hint="edgedla build MODEL --placement FILE -o ARTIFACT",
        )
    linear_float(handover, "Triton", tuple(TYPES))
    plan = f"{handover.name}/1/model.plan"
    files: Files = {f"{handover.name}/config.pbtxt": _config(handover)}
    missing: Dict[str, str] = {}
    carry(files, missing, plan, handover.engine, "the engine: `edgedla build` on the board, then the artifact's engine-*.engine")
    steps = ("tritonserver --model-repository=THIS_FOLDER",)
    gaps = ("pictures and decoding: clients send prepared arrays, as `edgedla.runtime` prepares them",)
    return Export(files, missing, READ_BY, steps, gaps)


def _config(handover: Handover) -> str:
    return "".join(
        [
            f"name: {json.dumps(handover.name)}\n",
            'platform: "tensorrt_plan"\n',
            # The engine's batch is a fixed dimension like the others.
            "max_batch_size: 0\n",
            _tensors("input", handover.inputs),
            _tensors("output", handover.outputs),
            _instances(handover),
        ]
    )


def _tensors(kind: str, bindings: Sequence[Binding]) -> str:
    parts: List[str] = []
    for b in bindings:
        dims = ", ".join(map(str, b.shape_nchw))
        parts.append(f"  {{\n    name: {json.dumps(b.name)}\n    data_type: {TYPES[b.dtype]}\n    dims: [ {dims} ]\n  }}")
    return f"{kind} [\n" + ",\n".join(parts) + "\n]\n"


def _instances(handover: Handover) -> str:
    core = handover.core
    dla = "" if core is None else f"    secondary_devices [\n      {{ kind: KIND_NVDLA device_id: {core} }}\n    ]\n"
    return f"instance_group [\n  {{\n    count: 1\n    kind: KIND_GPU\n    gpus: [ 0 ]\n{dla}  }}\n]\n"
