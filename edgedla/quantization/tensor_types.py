"""Element types and sizes of a model's tensors, inferred without copying its weights."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from edgedla.importers.model_file.shape_inference import with_inferred_shapes

FLOAT = 1


def tensor_types(model: Any) -> Dict[str, Tuple[int, Tuple[int, ...]]]:
    """Tensor name -> (onnx.TensorProto.DataType, dims; 0 for a size that is unknown), for the main graph."""
    inferred = with_inferred_shapes(model).graph
    known = (*inferred.input, *inferred.value_info, *inferred.output)
    return {
        v.name: (v.type.tensor_type.elem_type, tuple(max(d.dim_value, 0) for d in v.type.tensor_type.shape.dim))
        for v in known
    }


def float_activations(model: Any) -> Dict[str, Tuple[int, ...]]:
    """Float32 inputs and node outputs of the main graph, in order: tensor name -> dims."""
    types = tensor_types(model)
    constants = {i.name for i in model.graph.initializer}
    names: List[str] = [i.name for i in model.graph.input if i.name not in constants]
    names += [o for node in model.graph.node if node.op_type != "Constant" for o in node.output if o]
    return {n: types[n][1] for n in dict.fromkeys(names) if n in types and types[n][0] == FLOAT}
