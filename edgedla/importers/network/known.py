"""Values of constants: few whole numbers as Python has them, all others by NumPy, once something asks for them.

Nearly all that decides a layer is arithmetic on a handful of dims. NumPy comes in with the first other value that is
asked for: many networks never need one, and its import takes longer than the shape arithmetic of most.

The functions return None where a value is unknown, where operands or result are large, or where it cannot be worked out.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from edgedla.importers.network.lazy import MAX_FOLDED_ELEMENTS, fold

#: Whole numbers and truth values of up to this many elements are worked out in Python.
MAX_SMALL_ELEMENTS = 64
#: Types of Small: TensorRT's DataType name to (least, most).
SMALL_TYPES: Dict[str, Tuple[int, int]] = {
    "INT64": (-(1 << 63), (1 << 63) - 1),
    "INT32": (-(1 << 31), (1 << 31) - 1),
    "BOOL": (0, 1),
}
#: Types that decide no dim before they are cast to another one: their values can wait.
PATIENT_TYPES = frozenset({"FLOAT", "HALF", "INT8", "UINT8"})
#: Values that wait for values that wait, and so on: beyond this many the value is worked out at once.
MAX_WAITING = 50


class Known:
    """The value of a constant, in `dims` and of TensorRT type `dtype`."""

    __slots__ = ("dims", "dtype")

    def __init__(self, dims: Sequence[int], dtype: str) -> None:
        self.dims = tuple(dims)
        self.dtype = dtype

    @property
    def size(self) -> int:
        return volume_of(self.dims)

    def integers(self) -> Optional[List[int]]:
        """The elements in row-major order as whole numbers; None where they cannot be worked out."""
        array = self.array()
        return None if array is None else [int(v) for v in array.ravel()]

    def array(self) -> Any:
        """A NumPy array; None where it cannot be worked out."""
        raise NotImplementedError


class Small(Known):
    """A few whole numbers or truth values."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Sequence[int], dims: Sequence[int], dtype: str) -> None:
        super().__init__(dims, dtype)
        self.numbers = numbers

    @property
    def size(self) -> int:
        return len(self.numbers)

    def integers(self) -> Optional[List[int]]:
        return list(self.numbers)

    def array(self) -> Any:
        return fold().array(self.numbers, self.dtype, self.dims)


class Waiting(Known):
    """A value that is worked out when it is asked for."""

    __slots__ = ("_array", "_make", "depth")

    def __init__(self, dims: Sequence[int], dtype: str, make: Callable[[], Any], depth: int = 1) -> None:
        super().__init__(dims, dtype)
        self.depth = depth
        self._make: Optional[Callable[[], Any]] = make
        self._array: Any = None

    def array(self) -> Any:
        if self._make is not None:
            self._array = self._make()
            self._make = None
        return self._array

    def __getstate__(self) -> Tuple[Any, ...]:
        # A copy does not wait: what it waits for, a whole model, should not travel with it.
        return self.dims, self.dtype, self.depth, self.array()

    def __setstate__(self, state: Tuple[Any, ...]) -> None:
        self.dims, self.dtype, self.depth, self._array = state
        self._make = None


def volume_of(dims: Sequence[int]) -> int:
    n = 1
    for d in dims:
        n *= d
    return n


def integers_of(value: Optional[Known]) -> Optional[List[int]]:
    """The elements as whole numbers; None where they are not known."""
    return None if value is None else value.integers()


def first_of(value: Optional[Known], unknown: int) -> int:
    """The first element as a whole number; `unknown` where it is not known."""
    numbers = integers_of(value)
    return unknown if numbers is None else numbers[0]


def of_array(array: Any, dims: Sequence[int], dtype: str) -> Optional[Known]:
    """The value that a NumPy array of this type holds."""
    if array is None:
        return None
    if dtype in SMALL_TYPES and array.size <= MAX_SMALL_ELEMENTS:
        return Small([int(v) for v in array.ravel().tolist()], dims, dtype)
    made = Waiting(dims, dtype, lambda: array)
    made.array()
    return made


def of_numbers(numbers: Sequence[float], dtype: str, dims: Sequence[int]) -> Known:
    """Numbers in row-major order.

    Raises:
        ValueError: there are more or fewer of them than `dims` says.
    """
    if len(numbers) != volume_of(dims):
        raise ValueError(f"{len(numbers)} numbers for dims {list(dims)}")
    if dtype in SMALL_TYPES and len(numbers) <= MAX_SMALL_ELEMENTS:
        small = _small([int(v) for v in numbers], dims, dtype)
        if small is not None:
            return small
    return Waiting(dims, dtype, lambda: fold().array(numbers, dtype, dims))


def _small(numbers: List[int], dims: Sequence[int], dtype: str) -> Optional[Small]:
    """None where a number does not fit the type: NumPy knows what follows then."""
    least, most = SMALL_TYPES[dtype]
    for n in numbers:
        if not least <= n <= most:
            return None
    return Small(numbers, dims, dtype)


def _by_numpy(
    function: Callable[..., Any], operands: Sequence[Optional[Known]], dims: Sequence[int], dtype: str
) -> Optional[Known]:
    """`function(*arrays)`, later where that is good enough."""
    if dtype not in SMALL_TYPES and dtype not in PATIENT_TYPES:
        return None
    depth = 0
    for v in operands:
        if v is None or v.size > MAX_FOLDED_ELEMENTS:
            return None
        if isinstance(v, Waiting):
            depth = max(depth, v.depth)
    if not 0 <= volume_of(dims) <= MAX_FOLDED_ELEMENTS:
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
    "SUM": operator.add, "SUB": operator.sub, "PROD": operator.mul, "MAX": max, "MIN": min,
    "FLOOR_DIV": operator.floordiv,
    "DIV": lambda a, b: abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b)),
}  # fmt: skip
_COMPARISONS: Dict[str, Callable[[int, int], int]] = {
    "EQUAL": lambda a, b: int(a == b),
    "LESS": lambda a, b: int(a < b),
    "GREATER": lambda a, b: int(a > b),
}
_REDUCTIONS: Dict[str, Callable[[Sequence[int]], int]] = {"SUM": sum, "MAX": max, "MIN": min}


def elementwise(op: str, a: Optional[Known], b: Optional[Known], dims: Sequence[int], dtype: str) -> Optional[Known]:
    if isinstance(a, Small) and isinstance(b, Small) and a.dtype == b.dtype != "BOOL":
        function = _INTEGERS.get(op) if dtype == a.dtype else _COMPARISONS.get(op) if dtype == "BOOL" else None
        pairs = None if function is None else _pairs(a, b, dims)
        if pairs is not None:
            assert function is not None
            try:
                made = _small([function(x, y) for x, y in pairs], dims, dtype)
            except ZeroDivisionError:
                return None
            if made is not None:
                return made
    return _by_numpy(lambda x, y: fold().elementwise(op, x, y, dims, dtype), (a, b), dims, dtype)


def _pairs(a: Small, b: Small, dims: Sequence[int]) -> Any:
    """The operands' elements side by side; None where the broadcast is more than one number repeated."""
    if a.dims == b.dims:
        return zip(a.numbers, b.numbers) if volume_of(dims) == len(a.numbers) else None
    if len(b.numbers) == 1 and volume_of(dims) == len(a.numbers):
        return zip(a.numbers, itertools.repeat(b.numbers[0]))
    if len(a.numbers) == 1 and volume_of(dims) == len(b.numbers):
        return zip(itertools.repeat(a.numbers[0]), b.numbers)
    return None


def unary(op: str, x: Optional[Known], dims: Sequence[int], dtype: str) -> Optional[Known]:
    return _by_numpy(lambda v: fold().unary(op, v, dims, dtype), (x,), dims, dtype)


def relu(x: Optional[Known], dims: Sequence[int], dtype: str) -> Optional[Known]:
    return _by_numpy(lambda v: fold().relu(v, dims, dtype), (x,), dims, dtype)


def cast(x: Optional[Known], dims: Sequence[int], dtype: str) -> Optional[Known]:
    if x is not None and x.dtype == dtype and x.dims == tuple(dims) and x.size <= MAX_FOLDED_ELEMENTS:
        return x
    if isinstance(x, Small) and dtype in SMALL_TYPES and len(x.numbers) == volume_of(dims):
        made = _small([int(n != 0) for n in x.numbers] if dtype == "BOOL" else list(x.numbers), dims, dtype)
        if made is not None:
            return made
    return _by_numpy(lambda v: fold().cast(v, dims, dtype), (x,), dims, dtype)


def select(
    condition: Optional[Known], then: Optional[Known], otherwise: Optional[Known], dims: Sequence[int], dtype: str
) -> Optional[Known]:
    if isinstance(condition, Small) and isinstance(then, Small) and isinstance(otherwise, Small):
        same = condition.dims == then.dims == otherwise.dims == tuple(dims)
        if same and then.dtype == otherwise.dtype == dtype and condition.dtype == "BOOL":
            chosen = zip(condition.numbers, then.numbers, otherwise.numbers)
            return Small([t if c else o for c, t, o in chosen], dims, dtype)
    return _by_numpy(lambda c, t, o: fold().select(c, t, o, dims, dtype), (condition, then, otherwise), dims, dtype)


def reduce(
    op: str, x: Optional[Known], axes: Sequence[int], keep_dims: bool, dims: Sequence[int], dtype: str
) -> Optional[Known]:
    if isinstance(x, Small) and x.dtype == dtype != "BOOL" and x.numbers and len(axes) == len(x.dims):
        total = volume_of(x.numbers) if op == "PROD" else _REDUCTIONS[op](x.numbers) if op in _REDUCTIONS else None
        made = None if total is None else _small([total], dims, dtype)
        if made is not None:
            return made
    return _by_numpy(lambda v: fold().reduce(op, v, axes, keep_dims, dims, dtype), (x,), dims, dtype)


def concatenate(values: Sequence[Optional[Known]], axis: int, dims: Sequence[int], dtype: str) -> Optional[Known]:
    if len(dims) == 1 and dims[0] <= MAX_SMALL_ELEMENTS and dtype in SMALL_TYPES:
        numbers: List[int] = []
        for v in values:
            if not isinstance(v, Small) or v.dtype != dtype:
                break
            numbers += v.numbers
        else:
            return Small(numbers, dims, dtype) if len(numbers) == dims[0] else None
    return _by_numpy(lambda *vs: fold().concatenate(vs, axis, dims, dtype), values, dims, dtype)


def _taken(x: Small, axis: int, indices: Sequence[int]) -> Optional[Small]:
    """The entries at `indices` along one axis; None where one does not exist."""
    length, inner = x.dims[axis], volume_of(x.dims[axis + 1 :])
    if any(not -length <= i < length for i in indices):
        return None
    starts = [i % length * inner for i in indices]
    step = length * inner
    outer = range(0, len(x.numbers), step) if step else ()
    numbers = [x.numbers[o + s + k] for o in outer for s in starts for k in range(inner)]
    return Small(numbers, (*x.dims[:axis], len(indices), *x.dims[axis + 1 :]), x.dtype)


def gather(
    data: Optional[Known], indices: Optional[Known], axis: int, dims: Sequence[int], dtype: str
) -> Optional[Known]:
    if isinstance(data, Small) and isinstance(indices, Small) and data.dtype == dtype and 0 <= axis < len(data.dims):
        taken = _taken(data, axis, indices.numbers)
        if taken is not None and len(taken.numbers) == volume_of(dims) <= MAX_SMALL_ELEMENTS:
            return Small(taken.numbers, dims, dtype)
    return _by_numpy(lambda d, i: fold().gather(d, i, axis, dims, dtype), (data, indices), dims, dtype)


def shuffle(
    x: Optional[Known],
    first: Optional[Sequence[int]],
    middle: Sequence[int],
    second: Optional[Sequence[int]],
    dims: Sequence[int],
    dtype: str,
) -> Optional[Known]:
    if isinstance(x, Small) and x.dtype == dtype and volume_of(dims) == len(x.numbers) == volume_of(middle):
        numbers = x.numbers if first is None else _transposed(x.numbers, x.dims, first)
        if second is not None:
            numbers = _transposed(numbers, middle, second)
        return Small(numbers, dims, dtype)
    return _by_numpy(lambda v: fold().shuffle(v, first, middle, second, dims, dtype), (x,), dims, dtype)


def _transposed(numbers: Sequence[int], dims: Sequence[int], order: Sequence[int]) -> Sequence[int]:
    strides = [volume_of(dims[i + 1 :]) for i in range(len(dims))]
    at = itertools.product(*([k * strides[i] for k in range(dims[i])] for i in order))
    return [numbers[sum(offsets)] for offsets in at]


def strict_slice(
    x: Optional[Known], numbers: Sequence[Any], axes: Optional[Sequence[int]], dims: Sequence[int], dtype: str
) -> Optional[Known]:
    """What a strict-bounds slice takes; stride 0 repeats one element, as TensorRT broadcasts."""
    if isinstance(x, Small) and x.dtype == dtype and 0 <= volume_of(dims) <= MAX_SMALL_ELEMENTS:
        taken: Optional[Small] = x
        for axis, start, size, stride in zip(range(len(x.dims)) if axes is None else axes, *numbers):
            if taken is not None and size <= MAX_SMALL_ELEMENTS:
                taken = _taken(taken, axis, [start + stride * k for k in range(size)])
        if taken is not None and taken.dims == tuple(dims):
            return taken
    return _by_numpy(lambda v: fold().strict_slice(v, numbers, axes, dims, dtype), (x,), dims, dtype)


def linspace(first: Any, step: Any, count: int, dtype: str) -> Optional[Known]:
    """first, first + step, ...; numbers, or values of one element."""
    ends: List[int] = []
    for end in (first, step):
        numbers = end.numbers if isinstance(end, Small) else [end] if isinstance(end, int) else ()
        ends += numbers if len(numbers) == 1 else ()
    if len(ends) == 2 and count <= MAX_SMALL_ELEMENTS and dtype in ("INT32", "INT64"):
        made = _small([ends[0] + ends[1] * i for i in range(count)], (count,), dtype)
        if made is not None:
            return made
    operands = [v for v in (first, step) if isinstance(v, Known)]

    def line(*arrays: Any) -> Any:
        given = iter(arrays)
        a, b = (next(given) if isinstance(v, Known) else v for v in (first, step))
        return fold().linspace(a, b, count, dtype)

    return _by_numpy(line, operands, (count,), dtype)


def eye(rows: int, columns: int, diagonal: int) -> Optional[Known]:
    return _by_numpy(lambda: fold().eye(rows, columns, diagonal), (), (rows, columns), "INT32")
