"""ONNX operator -> how NVIDIA's parser lowers it.

To add an operator: write its function `(ctx, node, inputs) -> outputs` in the module of its group, and name it in one
of the tables below. An operator that only newer parsers know stands in rules/parser_operators.yaml as well.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional

from edgedla.importers.context import Context
from edgedla.importers.node import Node

Lowering = Callable[[Context, Node, List[Any]], List[Any]]


def _in(place: str, **settings: Any) -> Lowering:
    """The function "module.name" of this folder, with its settings. A module is imported when the first node asks for it."""
    module, _, name = place.rpartition(".")
    function: Optional[Callable[..., List[Any]]] = None

    def lower(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
        nonlocal function
        if function is None:
            function = getattr(import_module(f"{__name__}.{module}"), name)
        return function(ctx, node, inputs, **settings)

    return lower


#: Operators whose lowering has their own name (GatherND: `gather_nd`), by module.
NAMED: Dict[str, str] = {
    "activations": "Celu Clip Gelu HardSwish Hardmax Mish PRelu ParametricSoftplus Shrink",
    "control_flow.control": "Scan",
    "control_flow.cumulative": "CumSum",
    "control_flow.recurrent": "GRU LSTM RNN",
    "conv_transpose": "ConvTranspose",
    "detection": "DeformConv GridSample NonMaxSuppression RoiAlign",
    "elementwise": "Cast CastLike Dropout Identity IsInf Mean Mod Size Where",
    "generators": "Constant ConstantOfShape EyeLike Trilu",
    "indexing": "Gather GatherElements GatherND NonZero OneHot ReverseSequence ScatterElements ScatterND",
    "matmul": "Einsum Gemm",
    "norm": "BatchNormalization GroupNormalization ImageScaler InstanceNormalization LRN LayerNormalization "
    "LpNormalization MeanVarianceNormalization",
    "pad": "Pad",
    "pool": "GlobalLpPool LpPool",
    "reductions": "LogSoftmax ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSum ReduceSumSquare Softmax TopK",
    "reshape": "Concat DepthToSpace Flatten Reshape Shape SpaceToDepth Squeeze Transpose Unsqueeze",
    "resize": "Resize Upsample",
    "slicing": "Expand Tile",
    "split": "Split",
    "stft": "STFT",
    "windows": "Conv",
}
#: Operators that share a lowering: ONNX's name -> its setting `op`, by function.
SHARED: Dict[str, Dict[str, str]] = {
    "activations.activation": {
        "Elu": "ELU",
        "HardSigmoid": "HARD_SIGMOID",
        "LeakyRelu": "LEAKY_RELU",
        "Relu": "RELU",
        "ScaledTanh": "SCALED_TANH",
        "Selu": "SELU",
        "Sigmoid": "SIGMOID",
        "Softplus": "SOFTPLUS",
        "Softsign": "SOFTSIGN",
        "Tanh": "TANH",
        "ThresholdedRelu": "THRESHOLDED_RELU",
    },
    "elementwise.binary": {
        "Add": "SUM",
        "And": "AND",
        "Div": "DIV",
        "Equal": "EQUAL",
        "Greater": "GREATER",
        "Less": "LESS",
        "Max": "MAX",
        "Min": "MIN",
        "Mul": "PROD",
        "Or": "OR",
        "Pow": "POW",
        "Sub": "SUB",
        "Sum": "SUM",
        "Xor": "XOR",
    },
    "elementwise.or_equal": {"GreaterOrEqual": "GREATER", "LessOrEqual": "LESS"},
    "elementwise.unary": {
        "Abs": "ABS",
        "Acos": "ACOS",
        "Acosh": "ACOSH",
        "Asin": "ASIN",
        "Asinh": "ASINH",
        "Atan": "ATAN",
        "Atanh": "ATANH",
        "Ceil": "CEIL",
        "Cos": "COS",
        "Cosh": "COSH",
        "Erf": "ERF",
        "Exp": "EXP",
        "Floor": "FLOOR",
        "Log": "LOG",
        "Neg": "NEG",
        "Not": "NOT",
        "Reciprocal": "RECIP",
        "Round": "ROUND",
        "Sign": "SIGN",
        "Sin": "SIN",
        "Sinh": "SINH",
        "Sqrt": "SQRT",
        "Tan": "TAN",
    },
    "generators.random": {
        "RandomNormal": "RANDOM_NORMAL",
        "RandomNormalLike": "RANDOM_NORMAL",
        "RandomUniform": "RANDOM_UNIFORM",
        "RandomUniformLike": "RANDOM_UNIFORM",
    },
    "pool.global_pool": {"GlobalAveragePool": "AVG", "GlobalMaxPool": "MAX"},
    "pool.pool": {"AveragePool": "AVERAGE", "MaxPool": "MAX"},
    "reductions.arg_min_max": {"ArgMax": "MAX", "ArgMin": "MIN"},
    "reductions.reduce": {"ReduceMax": "MAX", "ReduceMean": "AVG", "ReduceMin": "MIN", "ReduceProd": "PROD"},
}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
OPERATORS: Dict[str, Lowering] = {
    **{op: _in(f"{module}.{_WORD.sub('_', op).lower()}") for module, ops in NAMED.items() for op in ops.split()},
    **{op: _in(place, op=value) for place, ops in SHARED.items() for op, value in ops.items()},
    "DequantizeLinear": _in("quantize.quantize", dequantizes=True),
    "If": _in("control_flow.control.if_op"),
    "IsNaN": _in("elementwise.is_nan"),
    "Loop": _in("control_flow.control.loop_op"),
    "MatMul": _in("matmul.matmul"),
    "QuantizeLinear": _in("quantize.quantize", dequantizes=False),
    "Range": _in("generators.range_op"),
    "Scatter": _in("indexing.scatter_elements"),
    "Slice": _in("slicing.slice_op"),
    "TRT_FP8DequantizeLinear": _in("quantize.quantize", dequantizes=True, custom="FP8"),
    "TRT_FP8QuantizeLinear": _in("quantize.quantize", dequantizes=False, custom="FP8"),
    "TRT_INT4DequantizeLinear": _in("quantize.quantize", dequantizes=True, custom="INT4"),
    "TRT_INT4QuantizeLinear": _in("quantize.quantize", dequantizes=False, custom="INT4"),
}
