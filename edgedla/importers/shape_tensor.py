"""Shape arithmetic as the parser does it: values that it knows cost no layer, all others become layers.

The parser knows the dims of a tensor and small integer initializers, but not the value of a network tensor, even of a
constant one. What is written here therefore decides how many constant layers stand in the network and what they are
named, not only the values.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence

from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.operand import Value
from edgedla.importers.refuse import CannotTell, Refused
from edgedla.importers.values import Weights

if TYPE_CHECKING:
    from edgedla.importers.context import Context

INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)


class ShapeTensor:
    """A scalar or vector of integers.

    Attributes:
        values: one number per element; negative ones stand for unknown where `known` is False and depth is 1; None
            where nothing is known.
        known: every value is known to the parser.
        rank: 0 or 1.
        size: number of elements, -1 where unknown.
        tensor: the network tensor behind it, if there is one already.
        depth: 0: `tensor` holds the values; 1: its dims are the values; 2: its rank is the value.
    """

    __slots__ = ("depth", "is_float", "known", "rank", "size", "tensor", "values")

    def __init__(
        self,
        values: Optional[List[int]],
        known: bool,
        rank: int,
        size: int,
        tensor: Optional[NetTensor] = None,
        depth: int = 0,
        is_float: bool = False,
    ) -> None:
        self.values = values
        self.known = known
        self.rank = rank
        self.size = size
        self.tensor = tensor
        self.depth = depth
        self.is_float = is_float

    def copy(self) -> ShapeTensor:
        return ShapeTensor(self.values, self.known, self.rank, self.size, self.tensor, self.depth, self.is_float)

    def is_all(self, x: int) -> bool:
        return self.known and all(v == x for v in self.values or ())

    def value_known(self, k: int) -> bool:
        return self.known or (self.values is not None and self.values[k] >= 0)

    def numbers(self) -> List[int]:
        """The values; only where `known`."""
        assert self.values is not None
        return self.values


def vector(*values: int) -> ShapeTensor:
    return ShapeTensor(list(values), True, 1, len(values))


def vector_of(values: Sequence[int]) -> ShapeTensor:
    return ShapeTensor(list(values), True, 1, len(values))


def scalar(value: int) -> ShapeTensor:
    return ShapeTensor([value], True, 0, 1)


def from_tensor(t: NetTensor, depth: int = 0) -> ShapeTensor:
    """The values of a network tensor (depth 0), its dims (1) or its rank (2)."""
    if depth == 0:
        if len(t.dims) > 1:
            raise Refused(f"a shape tensor must be 0D or 1D, {t.name} has rank {len(t.dims)}")
        return ShapeTensor(None, False, len(t.dims), t.dims[0] if t.dims else 1, t, 0, t.dtype == "FLOAT")
    if depth == 1:
        values = list(t.dims)
        return ShapeTensor(values, all(d >= 0 for d in values), 1, len(values), t, 1)
    return ShapeTensor([len(t.dims)], True, 1, 1, t, 2)


def from_input(ctx: Context, x: Value) -> ShapeTensor:
    """A node's input as shape values: integer initializers are known, tensors and floats are not."""
    if isinstance(x, NetTensor):
        return from_tensor(x)
    if not isinstance(x, Weights):
        raise Refused("a shape input is missing")
    if x.dtype == "FLOAT":
        if not x.dims and x.count == 0:
            return vector()
        return from_tensor(ctx.tensor(x))
    if len(x.dims) > 1:
        raise Refused("shape tensor must be 0D or 1D")
    numbers = x.integers()
    return ShapeTensor(numbers, True, len(x.dims), x.dims[0] if x.dims else 1)


def tensor_of(ctx: Context, s: ShapeTensor) -> NetTensor:
    """The network tensor that holds `s`; adds a CONSTANT or SHAPE layers if there is none yet."""
    if s.tensor is None or s.depth:
        if s.known:
            s.tensor = ctx.shape_constant(s.numbers(), (s.size,) if s.rank else ())
            s.depth = 0
        else:
            assert s.tensor is not None
            while s.depth > 0:
                s.tensor = ctx.shape_layer(s.tensor)
                s.depth -= 1
    return s.tensor


def shape_of(t: NetTensor) -> ShapeTensor:
    return from_tensor(t, 1)


def shape_of_shape(s: ShapeTensor) -> ShapeTensor:
    """The length of a shape vector, as a vector of one element."""
    if s.tensor is not None:
        return from_tensor(s.tensor, s.depth + 1) if s.depth < 2 else vector(1)
    return vector() if s.rank == 0 else vector(s.size)


def iota(n: int) -> ShapeTensor:
    return vector_of(range(n))


def similar(ctx: Context, exemplar: ShapeTensor, value: int) -> ShapeTensor:
    return fill(ctx, value, shape_of_shape(exemplar))


def fill(ctx: Context, value: int, count: ShapeTensor) -> ShapeTensor:
    """`value`, `count` times."""
    if count.known:
        n = count.numbers()[0] if count.numbers() else 0
        if n < 0 or n > 4096:
            raise Refused(f"a shape of {n} elements")
        return vector_of([value] * n)
    return from_tensor(add_slice(ctx, tensor_of(ctx, vector(value)), vector(0), count, vector(0)))


def _op(
    ctx: Context,
    x: ShapeTensor,
    y: ShapeTensor,
    layer_op: str,
    commutative: bool,
    right_identity: int,
    f: Callable[[int, int], int],
) -> ShapeTensor:
    if x.known and y.known and x.tensor is None and y.tensor is None and x.rank == y.rank and x.size == y.size:
        # Most arithmetic by far: numbers alone, so that a copy and a result are the same.
        return ShapeTensor(list(map(f, x.numbers(), y.numbers())), True, x.rank, x.size)
    if x.size >= 0 and y.size >= 0:
        if x.size != 1 and y.size != 1 and x.size != y.size:
            raise Refused(f"shape arithmetic on {x.size} and {y.size} elements")
        if y.is_all(right_identity) and y.size <= x.size:
            return x.copy()
        if commutative and x.is_all(right_identity) and x.size <= y.size:
            return y.copy()
    if x.known and y.known:
        a, b = x.numbers(), y.numbers()
        n = max(len(a), len(b))
        if not a or not b:
            return ShapeTensor([], True, x.rank, 0)
        return ShapeTensor([f(a[i % len(a)], b[i % len(b)]) for i in range(n)], True, x.rank, n)
    # The compiler that builds the parser evaluates the second argument first; the layers' numbers show it.
    second = tensor_of(ctx, y)
    first = tensor_of(ctx, x)
    out = arithmetic.elementwise(ctx.net, first, second, layer_op)
    ctx.helper_name(out, "ONNXTRT_ShapeElementWise")
    return from_tensor(out)


def add(ctx: Context, x: ShapeTensor, y: ShapeTensor) -> ShapeTensor:
    return _op(ctx, x, y, "SUM", True, 0, operator.add)


def sub(ctx: Context, x: ShapeTensor, y: ShapeTensor) -> ShapeTensor:
    return _op(ctx, x, y, "SUB", False, 0, operator.sub)


def mul(ctx: Context, x: ShapeTensor, y: ShapeTensor) -> ShapeTensor:
    return _op(ctx, x, y, "PROD", True, 1, operator.mul)


def minimum(ctx: Context, x: ShapeTensor, y: ShapeTensor) -> ShapeTensor:
    return _op(ctx, x, y, "MIN", True, INT64_MAX, min)


def maximum(ctx: Context, x: ShapeTensor, y: ShapeTensor) -> ShapeTensor:
    return _op(ctx, x, y, "MAX", True, INT64_MIN, max)


def floor_div(ctx: Context, x: ShapeTensor, y: ShapeTensor) -> ShapeTensor:
    def divide(a: int, b: int) -> int:
        if b == 0:
            raise Refused("divisor must be non-zero")
        return a // b

    return _op(ctx, x, y, "FLOOR_DIV", False, 1, divide)


def broadcast(ctx: Context, x: ShapeTensor, y: ShapeTensor) -> ShapeTensor:
    """max(x, y) * min(x, y, 1): the broadcast dims, 0 where either is 0."""
    smallest = minimum(ctx, x, minimum(ctx, y, similar(ctx, y, 1)))
    return mul(ctx, maximum(ctx, x, y), smallest)


def product(ctx: Context, x: ShapeTensor, first: int, last: int, rank: int) -> ShapeTensor:
    """x[first] * ... * x[last - 1]."""
    out = ShapeTensor([1], True, rank, 1)
    for i in range(first, last):
        out = mul(ctx, out, gather(ctx, x, ShapeTensor([i], True, rank, 1)))
    return out


def concat(ctx: Context, x: ShapeTensor, y: ShapeTensor) -> ShapeTensor:
    if x.size == 0:
        return y.copy()
    if y.size == 0:
        return x.copy()
    if x.known and y.known:
        return vector_of(x.numbers() + y.numbers())
    out = shapes.concatenation(ctx.net, [tensor_of(ctx, x), tensor_of(ctx, y)])
    ctx.helper_name(out, "ONNXTRT_ShapeConcat")
    return from_tensor(out)


def gather(ctx: Context, data: ShapeTensor, indices: ShapeTensor) -> ShapeTensor:
    if indices.known:
        if any(not 0 <= i < data.size for i in indices.numbers()) and data.size >= 0:
            raise Refused(f"gather index out of range in {indices.numbers()}")
        if all(data.value_known(i) for i in indices.numbers()):
            numbers = data.values or []
            return ShapeTensor([numbers[i] for i in indices.numbers()], True, indices.rank, indices.size)
    out = shapes.gather(ctx.net, tensor_of(ctx, data), tensor_of(ctx, indices), 0)
    ctx.helper_name(out, "ONNXTRT_ShapeGather")
    return from_tensor(out)


def interlace(ctx: Context, x: ShapeTensor, y: ShapeTensor, subscripts: ShapeTensor) -> ShapeTensor:
    """gather(concat(x, y), subscripts): x with some elements replaced by those of y."""
    return gather(ctx, concat(ctx, x, y), subscripts)


def interlace_subscripts(axes: ShapeTensor, rank: int) -> ShapeTensor:
    """Subscripts for `interlace` that replace x[axes[i]] by y[i]."""
    out = list(range(rank))
    for i, axis in enumerate(axes.numbers()):
        out[axis] = rank + i
    return vector_of(out)


def convert_to_1d(ctx: Context, s: ShapeTensor) -> ShapeTensor:
    if s.value_known(0):
        return vector(s.numbers()[0])
    return from_tensor(add_shuffle(ctx, tensor_of(ctx, s), vector(1)))


def convert_to_0d(ctx: Context, s: ShapeTensor) -> ShapeTensor:
    """A vector of one element as a scalar.

    Raises:
        Refused: it has more.
    """
    if s.rank == 0:
        return s
    if s.size != 1:
        raise Refused(f"Cannot convert a tensor of {s.size} elements to a scalar.")
    if s.value_known(0):
        return scalar(s.numbers()[0])
    return from_tensor(add_shuffle(ctx, tensor_of(ctx, s), vector()))


def to_dims(s: ShapeTensor, what: str) -> List[int]:
    numbers = s.numbers()
    if len(numbers) > shapes.MAX_DIMS:
        raise Refused(f"{what} has {len(numbers)} dimensions, TensorRT allows {shapes.MAX_DIMS}")
    for v in numbers:
        if not -1 <= v <= 0x7FFFFFFF:
            raise Refused(f"{what} dimensions have value {v} beyond allowed bounds")
    return numbers


def add_shuffle(ctx: Context, x: NetTensor, dims: ShapeTensor, zero_is_placeholder: bool = False) -> NetTensor:
    """A reshape to `dims`."""
    if dims.known:
        out = shapes.shuffle(ctx.net, x, reshape=to_dims(dims, "reshape"), zero_is_placeholder=zero_is_placeholder)
    else:
        target = tensor_of(ctx, dims)
        if target.value is None and target.dims and target.dims[0] < 0:
            raise CannotTell(f"the rank of a reshape, given by {target.name}, is not known")
        out = shapes.shuffle(ctx.net, x, reshape_tensor=target, zero_is_placeholder=zero_is_placeholder)
    ctx.helper_name(out, "ONNXTRT_ShapeShuffle")
    return out


def reshape(ctx: Context, x: NetTensor, dims: ShapeTensor) -> NetTensor:
    """A reshape, or `x` itself where it has these dims already."""
    old = shape_of(x)
    if old.known and dims.known:
        if old.numbers() == dims.numbers():
            return x
    elif dims.tensor is x and dims.depth == 1:
        return x
    return add_shuffle(ctx, x, dims)


def add_slice(
    ctx: Context,
    x: NetTensor,
    starts: ShapeTensor,
    sizes: ShapeTensor,
    strides: ShapeTensor,
    axes: Optional[Sequence[int]] = None,
    mode: str = "STRICT_BOUNDS",
) -> NetTensor:
    def given(s: ShapeTensor) -> Any:
        return s.numbers() if s.known else tensor_of(ctx, s)

    out = shapes.slice_layer(ctx.net, x, given(starts), given(sizes), given(strides), axes=axes, mode=mode)
    ctx.helper_name(out, "ONNXTRT_ShapeSlice")
    return out
