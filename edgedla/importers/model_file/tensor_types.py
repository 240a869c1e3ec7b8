"""Element types and sizes of a model's tensors, inferred without copying its weights."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from edgedla.importers.model_file.shape_inference import with_inferred_shapes

FLOAT = 1


def tensor_types(model: Any) -> Dict[str, Tuple[int, Tuple[int, ...]]]:
    """Tensor name -> (onnx.TensorProto.DataType, dims; 0 for a size that is unknown), for the main graph."""
    return {
        v.name: (v.type.tensor_type.elem_type, tuple(max(d.dim_value, 0) for d in v.type.tensor_type.shape.dim))
        for v in _values(model)
    }


def float_activations(model: Any) -> Dict[str, Tuple[int, ...]]:
    """Float32 inputs and node outputs of the main graph, in order: tensor name -> dims. Empty ones have no range."""
    types = {v.name: v.type.tensor_type for v in _values(model)}
    constants = {i.name for i in model.graph.initializer}
    names: List[str] = [i.name for i in model.graph.input if i.name not in constants]
    names += [o for node in model.graph.node if node.op_type != "Constant" for o in node.output if o]
    return {
        n: tuple(max(d.dim_value, 0) for d in types[n].shape.dim)
        for n in dict.fromkeys(names)
        if n in types
        and types[n].elem_type == FLOAT
        and not any(d.HasField("dim_value") and d.dim_value == 0 for d in types[n].shape.dim)
    }


def _values(model: Any) -> List[Any]:
    """Inputs, outputs and what lies between them, as onnx.ValueInfoProto with inferred types."""
    inferred = with_inferred_shapes(model).graph
    return [*inferred.input, *inferred.value_info, *inferred.output]
