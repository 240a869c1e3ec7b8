"""The arithmetic of constants: in Python on small values, else by NumPy, later where that is good enough.

The functions return None where a value is unknown, where operands or result are large, or where it cannot be worked out.
"""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence

from edgedla.importers.network.known import (
    MAX_SMALL_ELEMENTS,
    PATIENT_TYPES,
    SMALL_TYPES,
    KnownValue,
    Small,
    Waiting,
    of_array,
    small_or_none,
)
from edgedla.importers.network.lazy import fold
from edgedla.importers.network.limits import MAX_FOLDED_ELEMENTS

#: Values that wait for values that wait, and so on: beyond this many the value is worked out at once.
MAX_WAITING = 50


def _by_numpy(
    function: Callable[..., Any], operands: Sequence[Optional[KnownValue]], dims: Sequence[int], dtype: str
) -> Optional[KnownValue]:
    """`function(*arrays)`, later where that is good enough."""
    if dtype not in SMALL_TYPES and dtype not in PATIENT_TYPES:
        return None
    depth = 0
    for v in operands:
        if v is None or v.size > MAX_FOLDED_ELEMENTS:
            return None
        if isinstance(v, Waiting):
            depth = max(depth, v.depth)
    if not 0 <= math.prod(dims) <= MAX_FOLDED_ELEMENTS:
        return None
    arrays = [v.array for v in operands if v is not None]

    def make() -> Any:
        values = [array() for array in arrays]
        return None if any(v is None for v in values) else function(*values)

    if dtype in PATIENT_TYPES and depth < MAX_WAITING:
        return Waiting(dims, dtype, make, depth + 1)
    return of_array(make(), dims, dtype)


#: Operations on whole numbers whose result is of the operands' type.
_INTEGERS: Dict[str, Callable[[int, int], int]] = {
    "SUM": operator.add,
    "SUB": operator.sub,
    "PROD": operator.mul,
    "MAX": max,
    "MIN": min,
    "FLOOR_DIV": operator.floordiv,
    "DIV": lambda a, b: abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b)),
}
_COMPARISONS: Dict[str, Callable[[int, int], int]] = {
    "EQUAL": lambda a, b: int(a == b),
    "LESS": lambda a, b: int(a < b),
    "GREATER": lambda a, b: int(a > b),
}
_REDUCTIONS: Dict[str, Callable[[Sequence[int]], int]] = {"SUM": sum, "MAX": max, "MIN": min}


def elementwise(
    op: str, a: Optional[KnownValue], b: Optional[KnownValue], dims: Sequence[int], dtype: str
) -> Optional[KnownValue]:
    if isinstance(a, Small) and isinstance(b, Small) and a.dtype == b.dtype != "BOOL":
        function = _INTEGERS.get(op) if dtype == a.dtype else _COMPARISONS.get(op) if dtype == "BOOL" else None
        pairs = None if function is None else _pairs(a, b, dims)
        if pairs is not None:
            assert function is not None
            try:
                made = small_or_none([function(x, y) for x, y in pairs], dims, dtype)
            except ZeroDivisionError:
                return None
            if made is not None:
                return made
    return _by_numpy(lambda x, y: fold().elementwise(op, x, y, dims, dtype), (a, b), dims, dtype)


def _pairs(a: Small, b: Small, dims: Sequence[int]) -> Any:
    """The operands' elements side by side; None where the broadcast is more than one number repeated."""
    if a.dims == b.dims:
        return zip(a.numbers, b.numbers) if math.prod(dims) == len(a.numbers) else None
    if len(b.numbers) == 1 and math.prod(dims) == len(a.numbers):
        return zip(a.numbers, itertools.repeat(b.numbers[0]))
    if len(a.numbers) == 1 and math.prod(dims) == len(b.numbers):
        return zip(itertools.repeat(a.numbers[0]), b.numbers)
    return None


def unary(op: str, x: Optional[KnownValue], dims: Sequence[int], dtype: str) -> Optional[KnownValue]:
    return _by_numpy(lambda v: fold().unary(op, v, dims, dtype), (x,), dims, dtype)


def relu(x: Optional[KnownValue], dims: Sequence[int], dtype: str) -> Optional[KnownValue]:
    return _by_numpy(lambda v: fold().relu(v, dims, dtype), (x,), dims, dtype)


def cast(x: Optional[KnownValue], dims: Sequence[int], dtype: str) -> Optional[KnownValue]:
    if x is not None and x.dtype == dtype and x.dims == tuple(dims) and x.size <= MAX_FOLDED_ELEMENTS:
        return x
    if isinstance(x, Small) and dtype in SMALL_TYPES and len(x.numbers) == math.prod(dims):
        made = small_or_none([int(n != 0) for n in x.numbers] if dtype == "BOOL" else list(x.numbers), dims, dtype)
        if made is not None:
            return made
    return _by_numpy(lambda v: fold().cast(v, dims, dtype), (x,), dims, dtype)


def select(
    condition: Optional[KnownValue], then: Optional[KnownValue], otherwise: Optional[KnownValue], dims: Sequence[int], dtype: str
) -> Optional[KnownValue]:
    if isinstance(condition, Small) and isinstance(then, Small) and isinstance(otherwise, Small):
        same = condition.dims == then.dims == otherwise.dims == tuple(dims)
        if same and then.dtype == otherwise.dtype == dtype and condition.dtype == "BOOL":
            chosen = zip(condition.numbers, then.numbers, otherwise.numbers)
            return Small([t if c else o for c, t, o in chosen], dims, dtype)
    return _by_numpy(lambda c, t, o: fold().select(c, t, o, dims, dtype), (condition, then, otherwise), dims, dtype)


def reduce(
    op: str, x: Optional[KnownValue], axes: Sequence[int], keep_dims: bool, dims: Sequence[int], dtype: str
) -> Optional[KnownValue]:
    if isinstance(x, Small) and x.dtype == dtype != "BOOL" and x.numbers and len(axes) == len(x.dims):
        total = math.prod(x.numbers) if op == "PROD" else _REDUCTIONS[op](x.numbers) if op in _REDUCTIONS else None
        made = None if total is None else small_or_none([total], dims, dtype)
        if made is not None:
            return made
    return _by_numpy(lambda v: fold().reduce(op, v, axes, keep_dims, dims, dtype), (x,), dims, dtype)


def concatenate(values: Sequence[Optional[KnownValue]], axis: int, dims: Sequence[int], dtype: str) -> Optional[KnownValue]:
    if len(dims) == 1 and dims[0] <= MAX_SMALL_ELEMENTS and dtype in SMALL_TYPES:
        numbers: List[int] = []
        for v in values:
            if not isinstance(v, Small) or v.dtype != dtype:
                break
            numbers += v.numbers
        else:
            return Small(numbers, dims, dtype) if len(numbers) == dims[0] else None
    return _by_numpy(lambda *vs: fold().concatenate(vs, axis, dims, dtype), values, dims, dtype)


def _picked(x: Small, axis: int, indices: Sequence[int]) -> Optional[Small]:
    """The entries at `indices` along one axis; None where one does not exist."""
    length, inner = x.dims[axis], math.prod(x.dims[axis + 1 :])
    if any(not -length <= i < length for i in indices):
        return None
    starts = [i % length * inner for i in indices]
    step = length * inner
    outer = range(0, len(x.numbers), step) if step else ()
    numbers = [x.numbers[o + s + k] for o in outer for s in starts for k in range(inner)]
    return Small(numbers, (*x.dims[:axis], len(indices), *x.dims[axis + 1 :]), x.dtype)


def gather(
    data: Optional[KnownValue], indices: Optional[KnownValue], axis: int, dims: Sequence[int], dtype: str
) -> Optional[KnownValue]:
    if isinstance(data, Small) and isinstance(indices, Small) and data.dtype == dtype and 0 <= axis < len(data.dims):
        picked = _picked(data, axis, indices.numbers)
        if picked is not None and len(picked.numbers) == math.prod(dims) <= MAX_SMALL_ELEMENTS:
            return Small(picked.numbers, dims, dtype)
    return _by_numpy(lambda d, i: fold().gather(d, i, axis, dims, dtype), (data, indices), dims, dtype)


def shuffle(
    x: Optional[KnownValue],
    first: Optional[Sequence[int]],
    middle: Sequence[int],
    second: Optional[Sequence[int]],
    dims: Sequence[int],
    dtype: str,
) -> Optional[KnownValue]:
    if isinstance(x, Small) and x.dtype == dtype and math.prod(dims) == len(x.numbers) == math.prod(middle):
        numbers = x.numbers if first is None else _transposed(x.numbers, x.dims, first)
        if second is not None:
            numbers = _transposed(numbers, middle, second)
        return Small(numbers, dims, dtype)
    return _by_numpy(lambda v: fold().shuffle(v, first, middle, second, dims, dtype), (x,), dims, dtype)


def _transposed(numbers: Sequence[int], dims: Sequence[int], order: Sequence[int]) -> Sequence[int]:
    if not numbers:
        # With a dimension of 0 another one may be any: its offsets would be written down.
        return numbers
    strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    at = itertools.product(*([k * strides[i] for k in range(dims[i])] for i in order))
    return [numbers[sum(offsets)] for offsets in at]


def strict_slice(
    x: Optional[KnownValue], numbers: Sequence[Any], axes: Optional[Sequence[int]], dims: Sequence[int], dtype: str
) -> Optional[KnownValue]:
    """What a strict-bounds slice takes; stride 0 repeats one element, as TensorRT broadcasts."""
    if isinstance(x, Small) and x.dtype == dtype and 0 <= math.prod(dims) <= MAX_SMALL_ELEMENTS:
        picked: Optional[Small] = x
        for axis, start, size, stride in zip(range(len(x.dims)) if axes is None else axes, *numbers):
            if picked is not None and size <= MAX_SMALL_ELEMENTS:
                picked = _picked(picked, axis, [start + stride * k for k in range(size)])
        if picked is not None and picked.dims == tuple(dims):
            return picked
    return _by_numpy(lambda v: fold().strict_slice(v, numbers, axes, dims, dtype), (x,), dims, dtype)


def linspace(first: Any, step: Any, count: int, dtype: str) -> Optional[KnownValue]:
    """first, first + step, ...; numbers, or values of one element."""
    ends: List[int] = []
    for end in (first, step):
        numbers = end.numbers if isinstance(end, Small) else [end] if isinstance(end, int) else ()
        ends += numbers if len(numbers) == 1 else ()
    if len(ends) == 2 and count <= MAX_SMALL_ELEMENTS and dtype in ("INT32", "INT64"):
        made = small_or_none([ends[0] + ends[1] * i for i in range(count)], (count,), dtype)
        if made is not None:
            return made
    operands = [v for v in (first, step) if isinstance(v, KnownValue)]

    def line(*arrays: Any) -> Any:
        given = iter(arrays)
        a, b = (next(given) if isinstance(v, KnownValue) else v for v in (first, step))
        return fold().linspace(a, b, count, dtype)

    return _by_numpy(line, operands, (count,), dtype)


def eye(rows: int, columns: int, diagonal: int) -> Optional[KnownValue]:
    return _by_numpy(lambda: fold().eye(rows, columns, diagonal), (), (rows, columns), "INT32")
