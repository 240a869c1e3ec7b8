"""Types and dims of a new node's outputs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node
from edgedla.importers.operator_schema import operator_schema

#: Operators whose output has the type and dims of their first input.
SAME_AS_INPUT = frozenset(
    "BatchNormalization Clip Dropout Elu Erf HardSigmoid HardSwish Identity LeakyRelu Neg Relu Sigmoid Tanh".split()
)
OutputType = Tuple[Any, Optional[Sequence[int]]]


def output_types(network: Network, node: Node) -> List[OutputType]:
    """(element type, dims) of each output; (None, None) if inference does not find them."""
    first = node.inputs[0]
    if first is not None and node.op_type in SAME_AS_INPUT:
        return [(first.dtype, network.shape(first))] * len(node.outputs)
    from onnx import helper, numpy_helper, shape_inference

    ir = onnx_ir()
    schema = operator_schema(node.op_type, network.opset)
    types: Dict[str, Any] = {}
    data: Dict[str, Any] = {}
    for value in node.inputs:
        if value is None or value.dtype is None or value.name is None:
            continue
        types[value.name] = ir.serde.serialize_value(value).type
        if network.is_constant(value) and value.dtype.numpy().kind in "iu" or node.op_type == "Resize":
            constant = network.constant(value)
            if constant is not None:
                data[value.name] = numpy_helper.from_array(constant)
    proto = ir.serde.serialize_node(node)
    try:
        opset = helper.make_opsetid("", network.opset)
        types = shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=[opset], ir_version=10)
    except Exception:
        # onnx raises its own classes and RuntimeError; with an unknown shape later rewrites just refuse.
        types = {}
    return [_of_proto(ir, types.get(value.name or "")) for value in node.outputs]


def _of_proto(ir: Any, proto: Any) -> OutputType:
    if proto is None or not proto.HasField("tensor_type"):
        return None, None
    tensor = proto.tensor_type
    dtype = ir.DataType(tensor.elem_type) if tensor.elem_type else None
    if not tensor.HasField("shape") or any(not d.HasField("dim_value") for d in tensor.shape.dim):
        return dtype, None
    return dtype, [d.dim_value for d in tensor.shape.dim]
