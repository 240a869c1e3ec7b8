"""Dims from the model's value_info, or else from ONNX shape inference: used only after an unknown operator.

Elsewhere the import computes all dims by itself, as TensorRT does.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Tuple

from edgedla.importers.context import Context
from edgedla.importers.dtypes import trt_type
from edgedla.importers.model_file.shape_inference import can_infer_shapes

#: Dims and TensorRT data type by tensor name.
Described = Dict[str, Tuple[Tuple[int, ...], str]]

SECONDS = 60
#: Shape inference is native code that a broken model can crash, so it runs in a process of its own.
#: The module search path is the parent's: without it, Python would look for onnx in the current folder first.
CHILD = """
import sys
sys.path[:] = {path}
import onnx, onnx.shape_inference
model = onnx.ModelProto()
model.ParseFromString(sys.stdin.buffer.read())
for domain in {{n.domain for n in model.graph.node}} - {{o.domain for o in model.opset_import}}:
    model.opset_import.add(domain=domain, version=1)
sys.stdout.buffer.write(onnx.shape_inference.infer_shapes(model).SerializeToString())
"""


def described_tensors(ctx: Context, model: Any) -> Described:
    """Dims and TensorRT types of the tensors that have any; ONNX shape inference runs only where the model gives none."""
    described = _described(ctx, model.graph)
    named = {name for node in model.graph.node for name in node.output if name}
    if named <= set(described):
        return described
    return {**_inferred(ctx, model), **described}


def _inferred(ctx: Context, model: Any) -> Described:
    if not sys.executable:
        return {}
    # Most models hold every shape in value_info: no child process is needed.
    import json
    import subprocess

    try:
        data = model.SerializeToString()
        if not can_infer_shapes(model, data):
            return {}
        done = subprocess.run(
            [sys.executable, "-c", CHILD.format(path=json.dumps(sys.path))],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
        answer = type(model)()
        answer.ParseFromString(done.stdout)
    except Exception:
        # Shape inference may fail in any way on an unknown model; the import goes on without it.
        return {}
    return _described(ctx, answer.graph)


def _described(ctx: Context, graph: Any) -> Described:
    described: Described = {}
    for value in [*graph.value_info, *graph.output]:
        t = value.type.tensor_type
        if t.HasField("shape") and len(t.shape.dim) <= 8:
            dims = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else -1 for d in t.shape.dim)
            described[value.name] = (dims, trt_type(ctx, t.elem_type) or "FLOAT")
    return described
