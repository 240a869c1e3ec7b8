"""Values of constants: few integers as Python numbers, all others by NumPy, evaluated on first use.

Nearly all that decides a layer is arithmetic on a handful of dims. NumPy comes in with the first other value that is
used: many networks never need one, and its import takes longer than the shape arithmetic of most.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from edgedla.importers.network.lazy import fold

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


class KnownValue:
    """The value of a constant, in `dims` and of TensorRT type `dtype`."""

    __slots__ = ("dims", "dtype")

    def __init__(self, dims: Sequence[int], dtype: str) -> None:
        self.dims = tuple(dims)
        self.dtype = dtype

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    def integers(self) -> Optional[List[int]]:
        """The elements in row-major order as whole numbers; None where they cannot be worked out."""
        array = self.array()
        return None if array is None else [int(v) for v in array.ravel()]

    def array(self) -> Any:
        """A NumPy array; None where it cannot be worked out."""
        raise NotImplementedError


class Small(KnownValue):
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


class Waiting(KnownValue):
    """A value that is evaluated on first use."""

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
        # A copy is evaluated: it must not carry the whole model with it.
        return self.dims, self.dtype, self.depth, self.array()

    def __setstate__(self, state: Tuple[Any, ...]) -> None:
        self.dims, self.dtype, self.depth, self._array = state
        self._make = None


def integers_of(value: Optional[KnownValue]) -> Optional[List[int]]:
    """The elements as whole numbers; None where they are not known."""
    return None if value is None else value.integers()


def first_of(value: Optional[KnownValue], unknown: int) -> int:
    """The first element as a whole number; `unknown` where it is not known."""
    numbers = integers_of(value)
    return unknown if numbers is None else numbers[0]


def of_array(array: Any, dims: Sequence[int], dtype: str) -> Optional[KnownValue]:
    """The value that a NumPy array of this type holds."""
    if array is None:
        return None
    if dtype in SMALL_TYPES and array.size <= MAX_SMALL_ELEMENTS:
        return Small([int(v) for v in array.ravel().tolist()], dims, dtype)
    made = Waiting(dims, dtype, lambda: array)
    made.array()
    return made


def of_numbers(numbers: Sequence[float], dtype: str, dims: Sequence[int]) -> KnownValue:
    """Numbers in row-major order.

    Raises:
        ValueError: there are more or fewer of them than `dims` says.
    """
    if len(numbers) != math.prod(dims):
        raise ValueError(f"{len(numbers)} numbers for dims {list(dims)}")
    if dtype in SMALL_TYPES and len(numbers) <= MAX_SMALL_ELEMENTS:
        small = small_or_none([int(v) for v in numbers], dims, dtype)
        if small is not None:
            return small
    return Waiting(dims, dtype, lambda: fold().array(numbers, dtype, dims))


def small_or_none(numbers: List[int], dims: Sequence[int], dtype: str) -> Optional[Small]:
    """None where a number does not fit the type: NumPy knows what follows then."""
    least, most = SMALL_TYPES[dtype]
    for n in numbers:
        if not least <= n <= most:
            return None
    return Small(numbers, dims, dtype)
