"""Helpers of extraction for ONNX's protobuf messages: captured names, types and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from edgedla.importers.model_file.shape_inference import with_inferred_shapes

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


def without_graph(model: ModelProto) -> Any:
    """A copy of the model without its graph: version, operator sets, functions and metadata."""
    import onnx

    rest = onnx.ModelProto()
    for descriptor, value in model.ListFields():
        if descriptor.name == "graph":
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(rest, descriptor.name, value)
        else:
            getattr(rest, descriptor.name).extend(value)
    # Before version 4 every initializer had to be an input too.
    rest.ir_version = max(rest.ir_version, 4)
    return rest


def sized(entry: ValueInfoProto, dims: Optional[Tuple[int, ...]]) -> Any:
    """A network input with the sizes of the build."""
    import onnx

    copy = onnx.ValueInfoProto()
    copy.CopyFrom(entry)
    if dims is not None:
        shape = copy.type.tensor_type.shape
        del shape.dim[:]
        for d in dims:
            shape.dim.add().dim_value = d
    return copy


def inferred_types(model: ModelProto) -> Dict[str, int]:
    """Tensor name -> element type (TensorProto.DataType), if the model or ONNX's shape inference gives it."""
    declared = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.value_info, *model.graph.output)}
    if {t for node in model.graph.node for t in node.output if t} <= set(declared):
        return declared
    inferred = with_inferred_shapes(model).graph
    return {**{v.name: v.type.tensor_type.elem_type for v in inferred.value_info}, **declared}
