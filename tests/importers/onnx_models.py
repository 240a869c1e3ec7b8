"""Small ONNX models for the tests, in few words."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import onnx
from onnx import TensorProto, helper

from edgedla.importers import load_onnx
from tests.models import constant, ints, value
from tests.models import ones as weights

__all__ = ["VERSIONS", "constant", "ints", "model", "one", "output_dims", "types", "value", "weights"]

VERSIONS = ((8, 6), (10, 3))


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    initializers: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
    functions: Sequence[onnx.FunctionProto] = (),
    out_type: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "g", list(inputs), [value(n, None, out_type) for n in outputs], list(initializers))
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in sorted({f.domain for f in functions})]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)


def one(
    op: str,
    attributes: Optional[Mapping[str, Any]] = None,
    dims: Sequence[Any] = (1, 8, 16, 16),
    initializers: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
    out_type: int = TensorProto.FLOAT,
    inputs: Sequence[Tuple[str, Sequence[Any]]] = (),
) -> onnx.ModelProto:
    """One node `n` over input `x`, then further inputs, then the initializers in their order; output `y`."""
    names = ["x", *(n for n, _ in inputs), *(i.name for i in initializers)]
    node = helper.make_node(op, names, ["y"], name="n", **dict(attributes or {}))
    values = [value("x", dims), *(value(n, d) for n, d in inputs)]
    return model([node], values, ["y"], initializers, opset, out_type=out_type)


def types(proto: Any, trt: Tuple[int, int] = (10, 3), **how: Any) -> List[str]:
    return [layer.type for layer in load_onnx(proto, trt=trt, **how).layers]


def output_dims(proto: Any, trt: Tuple[int, int] = (10, 3), **how: Any) -> Dict[str, Tuple[int, ...]]:
    graph = load_onnx(proto, trt=trt, **how)
    return {name: graph.tensors[name].dims for name in graph.outputs}
