"""Networks in half precision, as exporters and converters write them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.models import node

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def halved(model: Any, keep_ends: bool = False) -> Any:
    """A copy whose FLOAT is FLOAT16. `keep_ends`: inputs and outputs stay FLOAT, with casts behind and before them."""
    half = type(model)()
    half.CopyFrom(model)
    _graph(half.graph)
    for function in half.functions:
        for inner in function.node:
            _node(inner)
    if keep_ends:
        _cast_ends(half.graph)
    return half


def _graph(graph: Any) -> None:
    for entry in (*graph.input, *graph.output, *graph.value_info):
        if entry.type.tensor_type.elem_type == FLOAT:
            entry.type.tensor_type.elem_type = HALF
    for tensor in graph.initializer:
        _tensor(tensor)
    for inner in graph.node:
        _node(inner)


def _node(inner: Any) -> None:
    for entry in inner.attribute:
        _tensor(entry.t)
        for body in (entry.g, *entry.graphs):
            _graph(body)


def _tensor(tensor: Any) -> None:
    if tensor.data_type == FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))


def _cast_ends(graph: Any) -> None:
    front, behind = [], []
    for entry in graph.input:
        entry.type.tensor_type.elem_type = FLOAT
        front.append(node("Cast", entry.name, f"{entry.name}_half", f"cast_{entry.name}", to=HALF))
    for entry in graph.output:
        entry.type.tensor_type.elem_type = FLOAT
        behind.append(node("Cast", f"{entry.name}_half", entry.name, f"cast_{entry.name}", to=FLOAT))
    ends = {entry.name for entry in (*graph.input, *graph.output)}
    nodes = []
    for inner in graph.node:
        for names in (inner.input, inner.output):
            for i, name in enumerate(names):
                names[i] = f"{name}_half" if name in ends else name
        nodes.append(type(inner).FromString(inner.SerializeToString()))
    del graph.node[:]
    graph.node.extend([*front, *nodes, *behind])
