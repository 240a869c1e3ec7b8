"""ONNX's shape inference as a guest: what it cannot infer is unknown, and its own failures never end a build."""

from __future__ import annotations

from typing import Any

from edgedla.errors import ModelError
from edgedla.importers.model_file.wire import Malformed, stripped


def with_inferred_shapes(model: Any) -> Any:
    """A copy of an onnx.ModelProto with value_info, without the payload of large weights.

    Shapes follow from small tensors only, and with gigabytes of weights inference would copy them twice or refuse the
    model (protobuf reads 2 GB at most). Where inference fails, the copy holds what the model itself says.
    """
    import onnx
    from onnx import shape_inference

    light = onnx.ModelProto()
    try:
        light.ParseFromString(stripped(model.SerializeToString()))
    except (Malformed, ValueError) as e:
        raise ModelError(f"the model cannot be written as protobuf: {e}") from e
    try:
        return shape_inference.infer_shapes(light)
    except Exception:
        # Its exceptions have no common class: an operator without opset, a function named like an operator, a cycle.
        return light
