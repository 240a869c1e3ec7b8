"""ONNX's shape inference, made safe: what it cannot infer is unknown, and its failures never end a command."""

from __future__ import annotations

import re
from typing import Any, Iterator, Optional

from edgedla.errors import ModelError
from edgedla.importers.model_file.wire import Malformed, stripped

#: Equations that onnx's shape inference handles. On other characters it loops for ever (1.16 to 1.23).
_EINSUM = re.compile(r"([A-Za-z\s]*(\.\.\.)?[A-Za-z\s]*)(,[A-Za-z\s]*(\.\.\.)?[A-Za-z\s]*)*(->.*)?", re.DOTALL)


def can_infer_einsum(equation: Any) -> bool:
    """Whether shape inference terminates on the equation of an Einsum, bytes or text."""
    text = equation.decode("latin-1") if isinstance(equation, bytes) else str(equation)
    return _EINSUM.fullmatch(text) is not None


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def can_infer_shapes(model: Any, data: bytes) -> bool:
    """Whether shape inference terminates on a model. `data`: the model's bytes."""
    return b"Einsum" not in data or all(
        can_infer_einsum(attribute.s)
        for part in (model.graph, *model.functions)
        for node in _nodes(part)
        for attribute in node.attribute
        if node.op_type == "Einsum" and attribute.name == "equation"
    )


def inferred(model: Any, data_prop: bool = False) -> Optional[Any]:
    """A copy of an onnx.ModelProto below 2 GB with inferred shapes; None where inference fails or would not terminate."""
    from onnx import shape_inference

    try:
        data = model.SerializeToString()
        return shape_inference.infer_shapes(data, data_prop=data_prop) if can_infer_shapes(model, data) else None
    except Exception:
        # Its exceptions have no common class: an operator without opset, a function named like an operator, a cycle.
        return None


def with_inferred_shapes(model: Any) -> Any:
    """A copy of an onnx.ModelProto with value_info, without the payload of large weights.

    Shapes follow from small tensors only, and with gigabytes of weights inference would copy them twice or refuse the
    model (protobuf reads 2 GB at most). Where inference fails, the copy holds what the model itself says.
    """
    import onnx

    light = onnx.ModelProto()
    try:
        light.ParseFromString(stripped(model.SerializeToString()))
    except (Malformed, ValueError) as e:
        raise ModelError(f"the model cannot be written as protobuf: {e}") from e
    found = inferred(light)
    return light if found is None else found
