"""A tensor between two TensorRT layers: name, dims, element type, and whether it is a build-time constant."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

#: Bytes of one element, by TensorRT's DataType name. Sub-byte types are fractions.
ELEMENT_BYTES: Dict[str, float] = {
    "FLOAT": 4,
    "HALF": 2,
    "BF16": 2,
    "FP8": 1,
    "FP4": 0.5,
    "INT4": 0.5,
    "INT8": 1,
    "UINT8": 1,
    "BOOL": 1,
    "INT32": 4,
    "INT64": 8,
    "DOUBLE": 8,
}


def dims_text(dims: Sequence[int]) -> str:
    """1x3x?x?: "?" for an open dim."""
    return "x".join("?" if d < 0 else str(d) for d in dims) or "scalar"


@dataclass(frozen=True)
class Tensor:
    """One tensor of the TensorRT network.

    Attributes:
        name: TensorRT's name for it.
        dims: sizes in TensorRT's order; -1 is a dynamic dimension. For an image tensor (N, C, H, W).
        dtype: TensorRT's DataType name: FLOAT, HALF, BF16, INT8, UINT8, INT32, INT64, BOOL, FP8, INT4.
        is_constant: the value is known when the engine is built (weights, folded shape arithmetic).
        constant_of: for a constant, the ONNX tensor (initializer or Constant output) that it comes from, if one.
        load_value: for a small constant, computes its value on demand.
    """

    name: str
    dims: Tuple[int, ...]
    dtype: str = "FLOAT"
    is_constant: bool = False
    constant_of: Optional[str] = None
    load_value: Optional[Callable[[], Any]] = field(default=None, compare=False, repr=False)

    @property
    def value(self) -> Any:
        """A small constant's value as a NumPy array; None if it is large or its data is missing."""
        return None if self.load_value is None else self.load_value()

    @property
    def rank(self) -> int:
        return len(self.dims)

    @cached_property
    def is_dynamic(self) -> bool:
        return any(d < 0 for d in self.dims)

    @cached_property
    def volume(self) -> int:
        """Number of elements; 0 if a dimension is dynamic."""
        return 0 if self.is_dynamic else math.prod(self.dims)

    @property
    def batch(self) -> int:
        """DLA's effective batch: the product of every dim except the last three (developer guide 8.4+, rule G-02)."""
        return math.prod(self.dims[:-3])

    @property
    def chw(self) -> Tuple[int, int, int]:
        """The last three dims; tensors of lower rank are read with leading ones."""
        c, h, w = ((1, 1, 1) + self.dims)[-3:]
        return c, h, w

    def size_bytes(self, element_bytes: Optional[float] = None) -> int:
        """Size of the packed tensor in bytes, with its own element type or `element_bytes` per element."""
        each = ELEMENT_BYTES.get(self.dtype, 4) if element_bytes is None else element_bytes
        return int(self.volume * each)
