"""Values of constant layers: NumPy for small tensors, unknown (None) for large ones or where data is missing."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence

import numpy as np

#: Values of more elements than this are not worked out: nothing that decides dims or placement needs them.
MAX_FOLDED_ELEMENTS = 65536

NUMPY_TYPES: Dict[str, Any] = {
    "FLOAT": np.float32, "HALF": np.float16, "INT32": np.int32, "INT64": np.int64, "INT8": np.int8,
    "UINT8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


def _divide(a: Any, b: Any) -> Any:
    if a.dtype.kind != "i":
        return a / b
    if not np.all(b):
        return None
    quotient = np.abs(a) // np.abs(b)
    return (np.sign(a) * np.sign(b) * quotient).astype(a.dtype)


def _floor_divide(a: Any, b: Any) -> Any:
    return np.floor_divide(a, b) if np.all(b) else None


ELEMENTWISE: Dict[str, Callable[[Any, Any], Any]] = {
    "SUM": np.add, "SUB": np.subtract, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum, "DIV": _divide,
    "FLOOR_DIV": _floor_divide, "POW": np.power, "EQUAL": np.equal, "LESS": np.less, "GREATER": np.greater,
    "AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor,
}  # fmt: skip

UNARY: Dict[str, Callable[[Any], Any]] = {
    "EXP": np.exp, "LOG": np.log, "SQRT": np.sqrt, "RECIP": np.reciprocal, "ABS": np.abs, "NEG": np.negative,
    "SIN": np.sin, "COS": np.cos, "TAN": np.tan, "CEIL": np.ceil, "FLOOR": np.floor, "NOT": np.logical_not,
    "SIGN": np.sign, "ROUND": np.round, "ISINF": np.isinf, "ISNAN": np.isnan,
}  # fmt: skip

REDUCE: Dict[str, Callable[..., Any]] = {
    "SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min, "AVG": np.mean,
}  # fmt: skip


def evaluate(function: Callable[..., Any], *values: Any, dims: Sequence[int], dtype: str) -> Optional[Any]:
    """`function(*values)` as an array of `dims` and TensorRT type `dtype`.

    None where a value is unknown, where operands or result are large (a broadcast can make much of little), or where it
    cannot be worked out.
    """
    for v in values:
        if v is None or v.size > MAX_FOLDED_ELEMENTS:
            return None
    elements = 1
    for d in dims:
        elements *= d
    target = NUMPY_TYPES.get(dtype)
    if target is None or not 0 <= elements <= MAX_FOLDED_ELEMENTS:
        return None
    try:
        with np.errstate(all="ignore"):
            result = function(*values)
            if result is None or result.size != elements:
                return None
            return np.asarray(result).astype(target, copy=False)
    except (ValueError, IndexError, TypeError, ArithmeticError, AttributeError, MemoryError):
        # Operands that do not fit each other are a fault of the model; the check of their dims names it.
        return None
