"""Element types and sizes of a model's tensors, inferred without copying its weights."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

FLOAT = 1
#: Initializers above this size only give their type and dims; smaller ones may hold shapes that inference needs.
_MOST_BYTES = 4096


def tensor_types(model: Any) -> Dict[str, Tuple[int, Tuple[int, ...]]]:
    """Tensor name -> (onnx.TensorProto.DataType, dims; 0 for a size that is unknown), for the main graph."""
    import onnx
    from onnx import helper

    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph, source = light.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    inputs = {i.name for i in source.input}
    for initializer in source.initializer:
        if initializer.ByteSize() <= _MOST_BYTES:
            graph.initializer.append(initializer)
        elif initializer.name not in inputs:
            graph.input.append(
                helper.make_tensor_value_info(initializer.name, initializer.data_type, list(initializer.dims))
            )
    inferred = onnx.shape_inference.infer_shapes(light).graph
    known = (*inferred.input, *inferred.value_info, *inferred.output)
    return {
        v.name: (v.type.tensor_type.elem_type, tuple(max(d.dim_value, 0) for d in v.type.tensor_type.shape.dim))
        for v in known
    }


def float_activations(model: Any) -> Dict[str, Tuple[int, ...]]:
    """Float32 inputs and node outputs of the main graph in order, with their dims."""
    types = tensor_types(model)
    constants = {i.name for i in model.graph.initializer}
    names: List[str] = [i.name for i in model.graph.input if i.name not in constants]
    names += [o for node in model.graph.node if node.op_type != "Constant" for o in node.output if o]
    return {n: types[n][1] for n in dict.fromkeys(names) if n in types and types[n][0] == FLOAT}
