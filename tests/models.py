"""Small ONNX models for the tests of every folder, in few words: `onnx_model([node("Relu", "x", "y")])`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Optional[Sequence[Any]]
#: Tensors by name, with their dims (None: not given). A list of names gives no dims.
Values = Union[Mapping[str, Dims], Sequence[str]]
#: Constants by name, or as protos.
Constants = Union[Mapping[str, Any], Sequence[onnx.TensorProto]]


def value(name: str, dims: Dims, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def constant(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def ints(name: str, *numbers: int) -> onnx.TensorProto:
    return constant(name, np.array(numbers, dtype=np.int64))


def ones(name: str, *dims: int) -> onnx.TensorProto:
    return constant(name, np.ones(dims, dtype=np.float32))


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; names of tensors are separated by spaces, and the node has its first output's name unless `name` is given."""
    return helper.make_node(op, inputs.split(), outputs.split(), name=name or outputs.split()[0], **attributes)


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Optional[Mapping[str, Dims]] = None,
    outputs: Values = ("y",),
    constants: Constants = (),
    opset: int = 13,
    kind: int = TensorProto.FLOAT,
    name: str = "net",
    **more: Any,
) -> onnx.ModelProto:
    """A model of these nodes. `inputs` default to x (1, 3, 8, 8); `kind` is the data type of the outputs."""
    dims_of = outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs)
    protos = [constant(k, v) for k, v in constants.items()] if isinstance(constants, Mapping) else list(constants)
    graph = helper.make_graph(
        list(nodes),
        name,
        [value(tensor, dims) for tensor, dims in (inputs or {"x": (1, 3, 8, 8)}).items()],
        [value(tensor, dims, kind) for tensor, dims in dims_of.items()],
        protos,
    )
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1) for domain in sorted({f.domain for f in more.get("functions", ())})]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def save(proto: onnx.ModelProto, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(proto, str(path))
    return path
