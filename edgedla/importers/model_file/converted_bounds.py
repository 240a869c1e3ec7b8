"""Mends what ONNX's version converter writes: bounds of a Clip in FLOAT, whatever type it clips."""

from __future__ import annotations

from collections import Counter
from typing import Any

from edgedla.importers.model_file.shape_inference import with_inferred_shapes

#: onnx.TensorProto.DataType of FLOAT, and NumPy's names of the other types that a Clip takes before operator set 11.
FLOAT, OTHERS = 1, {10: "float16", 11: "float64"}


def type_bounds(model: Any) -> None:
    """Gives the bounds of a Clip, where they are FLOAT constants of its own, the type of what it reads; in place."""
    import numpy as np
    from onnx import numpy_helper

    if not any(node.op_type == "Clip" and len(node.input) > 1 for node in model.graph.node):
        return
    graph = with_inferred_shapes(model).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
    constants = {n.output[0]: n.attribute[0].t for n in model.graph.node if n.op_type == "Constant" and n.attribute}
    read = Counter(name for node in model.graph.node for name in node.input)
    for node in model.graph.node:
        kind = OTHERS.get(types.get(node.input[0], FLOAT)) if node.op_type == "Clip" else None
        for bound in (constants.get(name) for name in node.input[1:] if kind and read[name] == 1):
            if bound is not None and bound.data_type == FLOAT:
                # Where there was no bound the converter writes the largest FLOAT: infinity in FLOAT16.
                with np.errstate(over="ignore"):
                    bound.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bound).astype(kind), bound.name))
