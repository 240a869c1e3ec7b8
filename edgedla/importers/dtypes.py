"""Element types: which ONNX types TensorRT's parser knows, and what it calls them."""

from __future__ import annotations

from typing import Dict, Optional

from edgedla.importers.context import Context
from edgedla.importers.operand import Value
from edgedla.importers.refuse import Refused
from edgedla.importers.values import ONNX_TYPES

#: ONNX element type number -> TensorRT DataType name.
TRT_TYPES_103: Dict[int, str] = {
    ONNX_TYPES["DOUBLE"]: "FLOAT",
    ONNX_TYPES["FLOAT"]: "FLOAT",
    ONNX_TYPES["INT8"]: "INT8",
    ONNX_TYPES["UINT8"]: "UINT8",
    ONNX_TYPES["FLOAT16"]: "HALF",
    ONNX_TYPES["BFLOAT16"]: "BF16",
    ONNX_TYPES["BOOL"]: "BOOL",
    ONNX_TYPES["INT32"]: "INT32",
    ONNX_TYPES["INT64"]: "INT64",
    ONNX_TYPES["FLOAT8E4M3FN"]: "FP8",
    ONNX_TYPES["INT4"]: "INT4",
}
#: 8.6 has no tensors of these types; INT64 becomes INT32.
TRT_TYPES_86 = {number: name for number, name in TRT_TYPES_103.items() if name not in ("BF16", "FP8", "INT4")}
TRT_TYPES_86[ONNX_TYPES["INT64"]] = "INT32"


def trt_type(ctx: Context, onnx_type: int) -> Optional[str]:
    """TensorRT's name of an ONNX element type; None where the parser knows none."""
    if onnx_type == ONNX_TYPES["UINT8"] and not ctx.parser.uint8_io:
        return None
    return (TRT_TYPES_103 if ctx.v10 else TRT_TYPES_86).get(onnx_type)


def dtype_of(x: Value) -> str:
    """Type of a node's input; "FLOAT" for one that is left out, as the parser has it."""
    return "FLOAT" if x is None else str(x.dtype)


def rank_of(x: Value) -> int:
    if x is None:
        raise Refused("an input that the operator needs is missing")
    return len(x.dims)


def refuse_types(x: Value, *types: str) -> None:
    """Raises:
    Refused: `x` has one of `types`.
    """
    if x is not None and x.dtype in types:
        raise Refused(f"Found unsupported input type of {x.dtype}")
