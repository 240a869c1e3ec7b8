"""Values of constant layers: NumPy for small tensors, unknown (None) for large ones or where data is missing."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from edgedla.importers.network.limits import MAX_FOLDED_ELEMENTS

NUMPY_TYPES: Dict[str, Any] = {
    "FLOAT": np.dtype(np.float32),
    "HALF": np.dtype(np.float16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "INT8": np.dtype(np.int8),
    "UINT8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}

#: Elements of eight bytes that an address has room for.
MOST_ELEMENTS = 2**60

#: NumPy types of raw TensorProto data, by ONNX element type number.
RAW_TYPES: Dict[int, Any] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    4: np.dtype("<u2"),
    5: np.dtype("<i2"),
    6: np.dtype("<i4"),
    7: np.dtype("<i8"),
    9: np.dtype("?"),
    10: np.dtype("<f2"),
    11: np.dtype("<f8"),
    12: np.dtype("<u4"),
    13: np.dtype("<u8"),
}


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
    "SUM": np.add,
    "SUB": np.subtract,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "DIV": _divide,
    "FLOOR_DIV": _floor_divide,
    "POW": np.power,
    "EQUAL": np.equal,
    "LESS": np.less,
    "GREATER": np.greater,
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
}

UNARY: Dict[str, Callable[[Any], Any]] = {
    "EXP": np.exp,
    "LOG": np.log,
    "SQRT": np.sqrt,
    "RECIP": np.reciprocal,
    "ABS": np.abs,
    "NEG": np.negative,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "NOT": np.logical_not,
    "SIGN": np.sign,
    "ROUND": np.round,
    "ISINF": np.isinf,
    "ISNAN": np.isnan,
}

REDUCE: Dict[str, Callable[..., Any]] = {"SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min, "AVG": np.mean}


def evaluate(
    function: Callable[..., Any], values: Sequence[Any], dims: Sequence[int], dtype: str, *, moves: bool = False
) -> Optional[Any]:
    """`function(*values)` as an array of `dims` and TensorRT type `dtype`.

    None where a value is unknown, where operands or result are large (a broadcast can make much of little), or where it
    cannot be worked out.

    Args:
        moves: the function only moves data, so that NumPy has nothing to warn about.
    """
    for v in values:
        if v is None or v.size > MAX_FOLDED_ELEMENTS:
            return None
    elements, target = math.prod(dims), NUMPY_TYPES.get(dtype)
    if target is None or not 0 <= elements <= MAX_FOLDED_ELEMENTS:
        return None
    try:
        if moves:
            result = function(*values)
            if result is not None and result.dtype != target:
                result = typed(result, result.shape, dtype)
        else:
            with np.errstate(all="ignore"):
                result = function(*values)
                if result is not None and result.dtype is not target:
                    result = result.astype(target)
        return result if result is not None and result.size == elements else None
    except (ValueError, IndexError, TypeError, ArithmeticError, AttributeError, MemoryError):
        # Operands that do not fit each other are a fault of the model; the check of their dims names it.
        return None


def elementwise(op: str, a: Any, b: Any, dims: Sequence[int], dtype: str) -> Optional[Any]:
    return evaluate(ELEMENTWISE[op], (a, b), dims, dtype)


def unary(op: str, x: Any, dims: Sequence[int], dtype: str) -> Optional[Any]:
    function = UNARY.get(op)
    return None if function is None else evaluate(function, (x,), dims, dtype)


def relu(x: Any, dims: Sequence[int], dtype: str) -> Optional[Any]:
    return evaluate(lambda v: np.maximum(v, 0), (x,), dims, dtype)


def cast(x: Any, dims: Sequence[int], dtype: str) -> Optional[Any]:
    return evaluate(lambda v: v, (x,), dims, dtype)


def select(condition: Any, then: Any, otherwise: Any, dims: Sequence[int], dtype: str) -> Optional[Any]:
    return evaluate(np.where, (condition, then, otherwise), dims, dtype)


def reduce(op: str, x: Any, axes: Sequence[int], keep_dims: bool, dims: Sequence[int], dtype: str) -> Optional[Any]:
    return evaluate(lambda v: REDUCE[op](v, axis=tuple(axes), keepdims=keep_dims), (x,), dims, dtype)


def concatenate(values: Sequence[Any], axis: int, dims: Sequence[int], dtype: str) -> Optional[Any]:
    return evaluate(lambda *vs: np.concatenate(vs, axis=axis), values, dims, dtype, moves=True)


def gather(data: Any, indices: Any, axis: int, dims: Sequence[int], dtype: str) -> Optional[Any]:
    return evaluate(lambda d, i: d.take(i, axis=axis), (data, indices), dims, dtype, moves=True)


def shuffle(
    x: Any,
    first: Optional[Sequence[int]],
    middle: Sequence[int],
    second: Optional[Sequence[int]],
    dims: Sequence[int],
    dtype: str,
) -> Optional[Any]:
    def function(v: Any) -> Any:
        if first is not None:
            v = v.transpose(first)
        v = v.reshape(middle)
        return v if second is None else v.transpose(second)

    return evaluate(function, (x,), dims, dtype, moves=True)


def strict_slice(x: Any, numbers: Sequence[Any], axes: Optional[Sequence[int]], dims: Sequence[int], dtype: str) -> Optional[Any]:
    """What a strict-bounds slice takes; stride 0 repeats one element, as TensorRT broadcasts."""
    starts, sizes, strides = numbers

    def function(v: Any) -> Any:
        for i, axis in enumerate(axes if axes is not None else range(v.ndim)):
            if sizes[i] * (v.size // max(1, v.shape[axis])) > 1 << 20:
                return None
            v = v.take(starts[i] + strides[i] * np.arange(sizes[i]), axis=axis)
        return v

    return evaluate(function, (x,), dims, dtype, moves=True)


def linspace(first: Any, step: Any, count: int, dtype: str) -> Optional[Any]:
    """first, first + step, ...; numbers or arrays of one element."""
    values = (np.asarray(first), np.asarray(step))
    return evaluate(lambda a, b: a.ravel() + b.ravel() * np.arange(count), values, (count,), dtype)


def array(values: Sequence[float], dtype: str, dims: Sequence[int]) -> Any:
    """Numbers in row-major order as an array."""
    numpy_type = NUMPY_TYPES.get(dtype, NUMPY_TYPES["FLOAT"])
    if numpy_type.kind == "f":
        with np.errstate(all="ignore"):
            return np.array(values, dtype=np.float64).astype(numpy_type).reshape(dims)
    return np.array(values, dtype=numpy_type).reshape(dims)


def eye(rows: int, columns: int, diagonal: int) -> Any:
    return np.eye(rows, columns, diagonal, dtype=np.int32)


def from_bytes(data: bytes, onnx_type: int, count: int) -> Any:
    """Raw tensor data as a flat array; None where it is too short or of a type without numbers."""
    raw = RAW_TYPES.get(onnx_type)
    if raw is None or len(data) < count * raw.itemsize:
        return None
    return np.frombuffer(data, raw, count)


def from_numbers(numbers: List[Any]) -> Any:
    return np.array(numbers)


def from_half_bits(numbers: List[int]) -> Any:
    """FLOAT16 values that stand as integers in int32_data."""
    return np.array(numbers, dtype=np.int64).astype(np.uint16).view(np.float16)


def typed(values: Any, dims: Sequence[int], dtype: str) -> Any:
    """Values in a type and shape; None for a shape that no array has, as an empty one with a huge dim beside the 0."""
    target = NUMPY_TYPES[dtype]
    if not values.size and math.prod(d for d in dims if d) > MOST_ELEMENTS:
        return None
    if values.dtype == target:
        return values.reshape(dims)
    with np.errstate(all="ignore"):
        return values.reshape(dims).astype(target)


def scaled_size(size: int, scale: float) -> int:
    """floor(size * scale) in single precision."""
    return int(np.floor(np.float32(size) * np.float32(scale)))
