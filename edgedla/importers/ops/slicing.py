"""Slice, Expand and Tile: SLICE layers."""

from __future__ import annotations

from typing import Any, List, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.context import Context
from edgedla.importers.dtypes import rank_of, refuse_types
from edgedla.importers.network import shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.known import integers_of
from edgedla.importers.node import Node
from edgedla.importers.operand import Value
from edgedla.importers.refuse import CannotTell, Refused
from edgedla.importers.values import Weights


def clamp(ctx: Context, x: st.ShapeTensor, lower: st.ShapeTensor, upper: st.ShapeTensor) -> st.ShapeTensor:
    return st.minimum(ctx, st.maximum(ctx, x, lower), upper)


def bump_if_negative(ctx: Context, dims: st.ShapeTensor, indices: st.ShapeTensor) -> st.ShapeTensor:
    """indices + dims where negative: indices - clamp(indices, -1, 0) * dims."""
    signs = clamp(ctx, indices, st.vector(-1), st.vector(0))
    return st.sub(ctx, indices, st.mul(ctx, signs, dims))


def slice_sizes(
    ctx: Context, starts: st.ShapeTensor, ends: st.ShapeTensor, steps: st.ShapeTensor, dims: st.ShapeTensor
) -> st.ShapeTensor:
    """ceil((end - start) / step), written as 0 - floor((start - end) / step)."""
    if steps.is_all(1):
        return st.sub(ctx, ends, starts)
    return st.sub(ctx, st.similar(ctx, dims, 0), st.floor_div(ctx, st.sub(ctx, starts, ends), steps))


def decode_bounds(
    ctx: Context, dims: st.ShapeTensor, steps: st.ShapeTensor, starts: st.ShapeTensor, ends: st.ShapeTensor
) -> Tuple[st.ShapeTensor, st.ShapeTensor]:
    """Resolves ONNX starts and ends: negative ones count from the end, and out-of-range ones are clamped."""
    sign = clamp(ctx, steps, st.vector(-1), st.vector(0))
    starts = bump_if_negative(ctx, dims, starts)
    starts = clamp(ctx, starts, st.vector(0), st.add(ctx, dims, sign))
    ends = bump_if_negative(ctx, dims, ends)
    ends = clamp(ctx, ends, sign, dims)
    return starts, ends


def slice_op(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if ctx.opset >= 10 and not 3 <= len(inputs) <= 5:
        raise Refused("Post-opset 10 Slice operator requires 3 - 5 inputs.")
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    if ctx.opset >= 10:
        given = (inputs + [None, None])[1:5]
        if ctx.v10 and _all_int32(given) and all(d >= 0 for d in x.dims):
            return [_static_slice(ctx, node, x, given)]
        if ctx.v10:
            # The parser does not look into a cast, so that even constant bounds become layers.
            starts = st.from_tensor(ctx.cast_helper(ctx.tensor(given[0]), "INT64"))
            ends = st.from_tensor(ctx.cast_helper(ctx.tensor(given[1]), "INT64"))
        else:
            starts, ends = st.from_input(ctx, given[0]), st.from_input(ctx, given[1])
        axes = st.iota(rank) if given[2] is None else st.from_input(ctx, given[2])
        if not axes.known and not ctx.parser.slice_axes:
            raise Refused("This version of TensorRT does not support dynamic axes.")
        steps = st.similar(ctx, starts, 1) if given[3] is None else st.from_input(ctx, given[3])
    else:
        starts, ends = st.vector_of(node.ints("starts")), st.vector_of(node.ints("ends"))
        axes = st.vector_of(node.ints("axes")) if node.has("axes") else st.iota(starts.size)
        steps = st.similar(ctx, starts, 1)
    for what, s in (("starts", starts), ("ends", ends)):
        if s.size != axes.size:
            raise Refused(
                f"The shape of input {what} misaligns with the shape of input axes. "
                f"Shape of input {what} = {s.size}, shape of input axes = {axes.size}."
            )
    if axes.known:
        axes = st.vector_of(_distinct_axes(axes.numbers(), rank))
    if ctx.parser.slice_axes:
        return [_slice_axes(ctx, node, x, starts, ends, steps, axes)]
    dims = st.shape_of(x)
    if axes.numbers() != list(range(rank)):
        subscripts = st.interlace_subscripts(axes, rank)
        starts = st.interlace(ctx, st.similar(ctx, dims, 0), starts, subscripts)
        ends = st.interlace(ctx, dims, ends, subscripts)
        steps = st.interlace(ctx, st.similar(ctx, dims, 1), steps, subscripts)
    starts, ends = decode_bounds(ctx, dims, steps, starts, ends)
    sizes = slice_sizes(ctx, starts, ends, steps, dims)
    sizes = st.maximum(ctx, st.similar(ctx, dims, 0), sizes)
    return [ctx.name(st.add_slice(ctx, x, starts, sizes, steps), node)]


def _distinct_axes(axes: List[int], rank: int) -> List[int]:
    fixed = []
    for axis in axes:
        if not -rank <= axis < rank:
            raise Refused(
                "The range of axis must be in [-r, r-1], where r is the rank of input data. "
                f"Provided axis = {axis}, r = {rank}."
            )
        fixed.append(axis + rank if axis < 0 else axis)
    if len(set(fixed)) != len(fixed):
        raise Refused("No duplicated axes are allowed.")
    return fixed


def _slice_axes(
    ctx: Context,
    node: Node,
    x: NetTensor,
    starts: st.ShapeTensor,
    ends: st.ShapeTensor,
    steps: st.ShapeTensor,
    axes: st.ShapeTensor,
) -> NetTensor:
    """Since 10.3: start, size and stride of the sliced axes alone; axes that a tensor holds become an input."""
    dims = st.gather(ctx, st.shape_of(x), axes)
    starts, ends = decode_bounds(ctx, dims, steps, starts, ends)
    sizes = slice_sizes(ctx, starts, ends, steps, dims)
    sizes = st.maximum(ctx, st.similar(ctx, dims, 0), sizes)
    if axes.known:
        return ctx.name(st.add_slice(ctx, x, starts, sizes, steps, axes=axes.numbers()), node)
    tensor = st.tensor_of(ctx, axes)
    given = integers_of(tensor.value)
    if given is None:
        raise CannotTell("the axes of Slice are not known before the model runs")
    numbers = _distinct_axes(given, len(x.dims))
    out = st.add_slice(ctx, x, starts, sizes, steps, axes=numbers)
    if out.layer is not None:
        read = out.layer.inputs
        read.extend([None] * (5 - len(read)))
        read.append(tensor)
    return ctx.name(out, node)


def _all_int32(given: List[Any]) -> bool:
    if getattr(given[0], "dtype", "") != "INT32":
        return False
    return all(g is None or isinstance(g, Weights) for g in given)


def _static_slice(ctx: Context, node: Node, x: NetTensor, given: List[Any]) -> NetTensor:
    """INT32 constants: one SLICE with numbers."""
    rank = len(x.dims)
    starts, ends = given[0].integers(), given[1].integers()
    axes = list(range(rank)) if given[2] is None else given[2].integers()
    steps = [1] * rank if given[3] is None else given[3].integers()
    start, size, stride = [0] * rank, list(x.dims), [1] * rank
    for i in range(len(starts)):
        axis = axes[i] + rank if axes[i] < 0 else axes[i]
        limit, step = x.dims[axis], steps[i]
        if step == 0:
            raise Refused("a step of Slice is 0")
        sign = -1 if step < 0 else 0
        first = starts[i] + limit if starts[i] < 0 else starts[i]
        first = min(max(first, 0), limit + sign)
        last = ends[i] + limit if ends[i] < 0 else ends[i]
        last = min(max(last, sign), limit)
        start[axis], stride[axis] = first, step
        size[axis] = max(int((last - first + step - (1 if step > 0 else -1)) / step), 0)
    return ctx.name(shapes.slice_layer(ctx.net, x, start, size, stride), node)


def expand(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    dims = st.shape_of(x)
    if rank_of(inputs[1]) != 1:
        raise Refused("The shape tensor is required to be 1D.")
    shape = st.from_input(ctx, inputs[1])
    rank, length = st.vector(len(x.dims)), st.shape_of_shape(shape)
    new_rank = st.maximum(ctx, length, rank)
    new_dims = st.concat(ctx, st.fill(ctx, 1, st.sub(ctx, new_rank, rank)), dims)
    x = st.reshape(ctx, x, new_dims)
    shape = st.concat(ctx, st.fill(ctx, 1, st.sub(ctx, new_rank, length)), shape)
    starts = st.similar(ctx, new_dims, 0)
    sizes = st.broadcast(ctx, new_dims, shape)
    one = st.vector(1)
    # 0 for a dim of 1, else 1.
    strides = st.minimum(ctx, one, st.sub(ctx, new_dims, one))
    return [ctx.name(st.add_slice(ctx, x, starts, sizes, strides), node)]


def tile(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    dims = st.shape_of(x)
    repeats = st.from_input(ctx, inputs[1])
    sizes = st.mul(ctx, dims, repeats)
    out = st.add_slice(ctx, x, st.similar(ctx, dims, 0), sizes, st.similar(ctx, dims, 1), mode="WRAP")
    return [ctx.name(out, node)]
