"""ONNX's shape inference, made safe: what it cannot infer is unknown, and its failures never end a command."""

from __future__ import annotations

import math
import re
from typing import Any, Dict, List, Optional

from edgedla.errors import ModelError
from edgedla.importers.model_file.value_names import bodies_of, graphs_in
from edgedla.importers.model_file.wire import Malformed, stripped

#: Equations that onnx's shape inference handles. On other characters it loops for ever (1.16 to 1.23).
_EINSUM = re.compile(r"([A-Za-z\s]*(\.\.\.)?[A-Za-z\s]*)(,[A-Za-z\s]*(\.\.\.)?[A-Za-z\s]*)*(->.*)?", re.DOTALL)

#: Most numbers of a scalar or vector that ONNX's data propagation follows: each takes it some 150 bytes.
MOST_PROPAGATED = 1 << 16
#: Largest rank of a TensorRT tensor: what Shape gives where the rank is unknown.
MOST_DIMS = 8
#: Operators whose input values decide how large the result is; other results are at most the product of two inputs.
SIZED_BY_VALUE = frozenset("Expand Tile ConstantOfShape Range Resize Upsample OneHot Pad".split())


def can_infer_einsum(equation: Any) -> bool:
    """Whether shape inference terminates on the equation of an Einsum, bytes or text."""
    text = equation.decode("latin-1") if isinstance(equation, bytes) else str(equation)
    return _EINSUM.fullmatch(text) is not None


def can_infer_shapes(model: Any, data: bytes) -> bool:
    """Whether shape inference terminates on a model. `data`: the model's bytes."""
    return b"Einsum" not in data or all(
        can_infer_einsum(attribute.s)
        for part in (model.graph, *model.functions)
        for graph in graphs_in(part)
        for node in graph.node
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


def inferred_by_values(model: Any) -> Optional[Any]:
    """As `inferred`, with shapes that follow from numbers which the graph computes, by ONNX's data propagation.

    Nodes around long vectors are left out of it: a Range of a few bytes would take gigabytes.
    """
    typed = {v.name for v in (*model.graph.value_info, *model.graph.output) if v.type.tensor_type.elem_type}
    with_shapes = model if all(o in typed for node in model.graph.node for o in node.output if o) else inferred(model)
    if with_shapes is None:
        return None
    many = _nodes_of_long_vectors(with_shapes.graph)
    if not many:
        return inferred(with_shapes, data_prop=True)
    few = type(model)()
    few.CopyFrom(with_shapes)
    for i in reversed(many):
        del few.graph.node[i]
    with_shapes = inferred(few, data_prop=True)
    if with_shapes is None:
        return None
    del with_shapes.graph.node[:]
    with_shapes.graph.node.extend(model.graph.node)
    return inferred(with_shapes)


def _nodes_of_long_vectors(graph: Any) -> List[int]:
    """Indices of the nodes that read or write a vector of more than MOST_PROPAGATED numbers, or of unknown length."""
    volumes: Dict[str, float] = {t.name: math.prod(t.dims) for t in graph.initializer}
    followed = {t.name: len(t.dims) < 2 for t in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            dims = [d.dim_value if d.HasField("dim_value") else math.inf for d in kind.shape.dim]
            followed[value.name] = len(dims) < 2
            if math.inf not in dims:
                volumes[value.name] = math.prod(dims)
    long = []
    for i, node in enumerate(graph.node):
        unknown = [name for name in node.output if name not in volumes]
        volumes.update(dict.fromkeys(unknown, _most_numbers(node, volumes) if unknown else 0.0))
        names = [name for name in (*node.input, *node.output) if name and followed.get(name, True)]
        if any(volumes.get(name, math.inf) > MOST_PROPAGATED for name in names):
            long.append(i)
    return long


def _most_numbers(node: Any, volumes: Dict[str, float]) -> float:
    """A bound for the numbers in a node's outputs of unknown size; infinity where nothing bounds them."""
    if node.op_type in ("Shape", "Size"):
        return MOST_DIMS
    if node.op_type in SIZED_BY_VALUE or bodies_of(node):
        return math.inf
    read = [volumes.get(name, math.inf) for name in node.input if name]
    return sum(read) if node.op_type == "Concat" else max(read, default=math.inf)


def with_inferred_shapes(model: Any, by_values: bool = False) -> Any:
    """A copy of an onnx.ModelProto with value_info, without the payload of large weights.

    Shapes follow from small tensors only, and with gigabytes of weights inference would copy them twice or refuse the
    model (protobuf reads 2 GB at most). Where inference fails, the copy holds what the model itself says.

    Args:
        by_values: also follow numbers that the graph computes.
    """
    import onnx

    light = onnx.ModelProto()
    try:
        light.ParseFromString(stripped(model.SerializeToString()))
    except (Malformed, ValueError) as e:
        raise ModelError(f"the model cannot be written as protobuf: {e}") from e
    with_shapes = inferred_by_values(light) if by_values else inferred(light)
    return light if with_shapes is None else with_shapes
