"""One-operator models over element types and ranks: what TensorRT's layers refuse although the parser itself does not.

Each model is named after its operator, the kind of operands, and the type. usage: python tests/contract/type_probes.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Sequence, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = ("FLOAT", "FLOAT16", "DOUBLE", "INT32", "INT64", "INT8", "UINT8", "BOOL")
X: Tuple[int, ...] = (1, 4, 8, 8)
#: (Kind, operator, operands, attributes). An operand is the dims of an input of the type, Like, an array, or None.
Case = Tuple[str, str, Sequence[Any], Mapping[str, Any]]


class Like(NamedTuple):
    """A constant of ones of the type."""

    dims: Tuple[int, ...]


def integers(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


BINARY = ("Add Sub Mul Div Min Max Pow Mod And Or Xor Equal Greater Less GreaterOrEqual LessOrEqual Sum Mean").split()
UNARY = (
    "Abs Neg Not Sqrt Exp Log Sin Cos Tan Asin Sinh Acosh Ceil Floor Round Sign Erf Reciprocal IsNaN IsInf Relu Sigmoid "
    "Tanh LeakyRelu Elu Selu Softplus Softsign HardSigmoid HardSwish ThresholdedRelu Celu Shrink Identity Dropout Shape Size "
    "GlobalAveragePool GlobalMaxPool NonZero Flatten LpNormalization EyeLike"
).split()
REDUCE = [f"Reduce{kind}" for kind in "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split()]
SOFT = ("Softmax", "LogSoftmax", "Hardmax")


def cases() -> Iterator[Case]:
    for op in BINARY:
        yield "inputs", op, [X, X], {}
        yield "constant", op, [X, Like(X)], {}
        yield "scalars", op, [(), ()], {}
    for op in UNARY:
        yield "input", op, [(8, 8) if op == "EyeLike" else X], {}
        if op not in ("GlobalAveragePool", "GlobalMaxPool", "EyeLike", "LpNormalization"):
            yield "scalar", op, [()], {}
            yield "vector", op, [(8,)], {}
    for op in REDUCE:
        axes: Dict[str, Any] = {} if op == "ReduceSum" else {"axes": [1]}
        yield "channels", op, [X, *([integers(1)] if op == "ReduceSum" else [])], axes
        yield "all", op, [X], {"keepdims": 0}
        yield "vector", op, [(8,)], {"keepdims": 0}
    for op in ("ArgMax", "ArgMin"):
        for kind, dims in (("4d", X), ("2d", (4, 8)), ("1d", (8,))):
            yield kind, op, [dims], {"axis": 0 if kind == "1d" else 1}
            yield f"{kind}_flat", op, [dims], {"axis": 0 if kind == "1d" else 1, "keepdims": 0}
    for kind, dims in (("4d", X), ("2d", (4, 8)), ("1d", (8,))):
        yield kind, "TopK", [dims, integers(3)], {"axis": -1}
    for op in SOFT:
        for kind, dims in (("4d", X), ("2d", (4, 8)), ("1d", (8,)), ("0d", ())):
            yield kind, op, [dims], {"axis": 0 if len(dims) < 2 else 1}
    for kind, dims in (("4d", X), ("3d", (1, 4, 8)), ("5d", (1, 4, 8, 8, 8)), ("2d", (1, 4))):
        spatial = len(dims) - 2
        window = {"kernel_shape": [2] * spatial, "strides": [2] * spatial} if spatial else {"kernel_shape": [1]}
        yield kind, "MaxPool", [dims], window
        yield kind, "AveragePool", [dims], window
        yield kind, "BatchNormalization", [dims, *[floats(1, 1, 1, 1)] * 4], {}
        yield kind, "InstanceNormalization", [dims, *[floats(1, 1, 1, 1)] * 2], {}
        yield kind, "LRN", [dims], {"size": 3}
        yield kind, "GlobalAveragePool", [dims], {}
    for op in ("Conv", "ConvTranspose"):
        yield "weights", op, [X, Like((4, 4, 3, 3))], {}
        yield "bias", op, [X, Like((4, 4, 3, 3)), Like((4,))], {}
        yield "kernel_input", op, [X, (4, 4, 3, 3)], {"kernel_shape": [3, 3]}
        yield "1d", op, [(1, 4, 8), Like((4, 4, 3))], {}
    for kind, a, b in (
        ("4d", X, (1, 4, 8, 8)),
        ("2d", (4, 8), (8, 4)),
        ("vector", (4, 8), (8,)),
        ("vectors", (8,), (8,)),
        ("mixed", (1, 4, 8, 8), (8, 8)),
    ):
        yield kind, "MatMul", [a, b], {}
        yield f"{kind}_constant", "MatMul", [a, Like(b)], {}
    yield "inputs", "Gemm", [(4, 8), (8, 4), (4,)], {}
    yield "constant", "Gemm", [(4, 8), Like((8, 4)), Like((4,))], {"alpha": 0.5}
    yield "product", "Einsum", [(2, 4, 8), (2, 8, 4)], {"equation": "bij,bjk->bik"}
    yield "inputs", "Concat", [X, X], {"axis": 1}
    yield "constant", "Concat", [X, Like(X)], {"axis": 1}
    yield "vectors", "Concat", [(4,), (4,)], {"axis": 0}
    yield "parts", "Split", [X, integers(2, 2)], {"axis": 1}
    yield "step", "Slice", [X, integers(0), integers(4), integers(3), integers(2)], {}
    yield "axis", "Gather", [X, integers(0, 2)], {"axis": 1}
    yield "scalar_index", "Gather", [(8,), np.int64(1)], {"axis": 0}
    yield "elements", "GatherElements", [(4, 8), integers([0, 1])], {"axis": 1}
    yield "nd", "GatherND", [(4, 8), integers([0, 1])], {}
    yield "elements", "ScatterElements", [(4, 8), integers([0, 1]), (1, 2)], {"axis": 1}
    yield "nd", "ScatterND", [(4, 8), integers([0, 1]), (1,)], {}
    yield "order", "Transpose", [X], {"perm": [0, 2, 3, 1]}
    yield "fixed", "Reshape", [X, integers(1, -1)], {}
    yield "axes", "Squeeze", [X, integers(0)], {}
    yield "axes", "Unsqueeze", [X, integers(0)], {}
    yield "fixed", "Expand", [(1, 4, 1, 1), integers(1, 4, 8, 8)], {}
    yield "repeats", "Tile", [X, integers(1, 2, 1, 1)], {}
    for mode in ("constant", "reflect", "edge"):
        yield mode, "Pad", [X, integers(0, 0, 1, 1, 0, 0, 1, 1)], {"mode": mode}
    for mode in ("nearest", "linear", "cubic"):
        scales = floats(1, 1, 2, 2)
        yield mode, "Resize", [X, None, scales], {"mode": mode}
    yield "inputs", "Where", [np.array([True]), X, X], {}
    yield "constant", "Where", [np.array([True]), X, Like(X)], {}
    for to in ("FLOAT", "FLOAT16", "INT32", "INT64", "INT8", "UINT8", "BOOL", "DOUBLE"):
        yield f"to_{to}", "Cast", [X], {"to": getattr(TensorProto, to)}
    yield "blocks", "DepthToSpace", [X], {"blocksize": 2}
    yield "blocks", "SpaceToDepth", [X], {"blocksize": 2}
    yield "axis", "CumSum", [(4, 8), np.int64(1)], {}
    yield "depth", "OneHot", [(4,), np.int64(8), Like((2,))], {}
    yield "inputs", "Range", [(), (), ()], {}
    yield "limit", "Range", [Like(()), (), Like(())], {}
    yield "upper", "Trilu", [(4, 8)], {"upper": 1}
    yield "both", "Clip", [X, Like(()), Like(())], {}
    yield "least", "Clip", [X, Like(())], {}
    yield "channel", "PRelu", [X, Like((4, 1, 1))], {}
    yield "slope_input", "PRelu", [X, X], {}
    yield "grid", "GridSample", [X, (1, 8, 8, 2)], {}
    yield "last", "LayerNormalization", [X, Like((8,)), Like((8,))], {}
    yield "whole", "MeanVarianceNormalization", [X], {}
    yield "scale", "QuantizeLinear", [X, np.float32(0.5), np.int8(0)], {}
    yield "scale", "DequantizeLinear", [X, np.float32(0.5)], {}
    yield "like", "RandomNormalLike", [X], {}
    yield "like", "CastLike", [X, X], {}
    yield "sequence", "ReverseSequence", [(4, 8), integers(*[4] * 8)], {}


def model_of(op: str, operands: Sequence[Any], attributes: Mapping[str, Any], type_name: str) -> onnx.ModelProto:
    kind = getattr(TensorProto, type_name)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    names, inputs, constants = [], [], []
    for i, operand in enumerate(operands):
        name = "xyzuvw"[i] if operand is not None else ""
        if isinstance(operand, Like):
            constants.append(numpy_helper.from_array(np.ones(operand.dims, dtype), name))
        elif isinstance(operand, tuple):
            inputs.append(helper.make_tensor_value_info(name, kind, operand))
        elif operand is not None:
            constants.append(numpy_helper.from_array(np.asarray(operand), name))
        names.append(name)
    outputs = ["out", "more"][: 2 if op in ("Split", "TopK") else 1]
    node = helper.make_node(op, names, outputs, name="n", **dict(attributes))
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info(o) for o in outputs], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    try:
        inferred = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.output}
    except (onnx.shape_inference.InferenceError, RuntimeError):
        inferred = {}
    for output in model.graph.output:
        known = inferred.get(output.name)
        inner = known.type.tensor_type.elem_type if known is not None else 0
        output.type.tensor_type.elem_type = inner or kind
    return model


def probes() -> Dict[str, onnx.ModelProto]:
    """Name, for example "Add.inputs.UINT8" -> model."""
    found: Dict[str, onnx.ModelProto] = {}
    for kind, op, operands, attributes in cases():
        for type_name in TYPES:
            found[f"{op}.{kind}.{type_name}"] = model_of(op, operands, attributes, type_name)
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for model_name, proto in probes().items():
        (folder / f"{model_name}.onnx").write_bytes(proto.SerializeToString())
