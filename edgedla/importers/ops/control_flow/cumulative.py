"""CumSum: a loop that adds up one element of an axis after another; one CUMULATIVE since 10.8."""

from __future__ import annotations

from typing import List

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import axis_length, squeeze
from edgedla.importers.context import Context
from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.loops import Loop
from edgedla.importers.node import Node, single_axis
from edgedla.importers.operand import Value
from edgedla.importers.ops.elementwise import zero_like
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def _slice_across(ctx: Context, x: NetTensor, axis: int) -> NetTensor:
    """One element along `axis`: stride of its whole length, size 1."""
    dtype = ctx.index_type
    length = st.from_tensor(axis_length(ctx, x, axis, (1,), dtype))

    def size_of(i: int) -> st.ShapeTensor:
        return st.from_tensor(axis_length(ctx, x, i, (1,), dtype))

    sizes = st.vector(1) if axis == 0 else size_of(0)
    strides = length.copy() if axis == 0 else st.vector(1)
    for i in range(1, len(x.dims)):
        if i == axis:
            strides = st.concat(ctx, strides, length)
            sizes = st.concat(ctx, sizes, st.vector(1))
        else:
            size = size_of(i)
            strides = st.concat(ctx, strides, st.vector(1))
            sizes = st.concat(ctx, sizes, size)
    return st.add_slice(ctx, x, st.vector_of([0] * len(x.dims)), sizes, strides)


def _shifted(ctx: Context, x: NetTensor, zero: NetTensor, axis: int, reverse: bool) -> NetTensor:
    """An exclusive sum is the sum of the input moved by one, with a zero at the end that comes free."""
    rank = len(x.dims)
    joined = shapes.concatenation(ctx.net, [x, zero] if reverse else [zero, x], axis)
    subscripts = st.interlace_subscripts(st.vector(axis), rank)
    dims = st.shape_of(joined)
    starts = st.vector_of([0] * rank)
    if reverse:
        starts = st.interlace(ctx, starts, st.vector(1), subscripts)
    shorter = st.sub(ctx, st.gather(ctx, dims, st.vector(axis)), st.vector(1))
    sizes = st.interlace(ctx, st.shape_of(joined), shorter, subscripts)
    return st.add_slice(ctx, joined, starts, sizes, st.vector_of([1] * rank))


def cum_sum(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    reverse = node.integer("reverse", 0) == 1
    x = ctx.tensor(inputs[0])
    if not isinstance(inputs[1], Weights):
        raise Refused("Axis input for CumSum must be an initializer!")
    axis = single_axis(inputs[1].integers()[0], len(x.dims))
    if ctx.parser.cumulative_layer:
        params = {"op": "SUM", "axis": axis, "exclusive": bool(node.integer("exclusive", 0)), "reverse": reverse}
        return [ctx.name(ctx.net.emit("CUMULATIVE", [x, ctx.tensor(inputs[1])], params, x.dims, x.dtype), node)]
    across = _slice_across(ctx, x, axis)
    if node.integer("exclusive", 0):
        x = _shifted(ctx, x, zero_like(ctx, across), axis, reverse)
    loop = Loop(ctx.net)
    length = axis_length(ctx, x, axis)
    loop.trip_limit(length, "COUNT")
    step = loop.iterator(x, axis, reverse)
    across = squeeze(ctx, across, [axis])
    total = loop.recurrence(zero_like(ctx, across))
    following = arithmetic.elementwise(ctx.net, step, total, "SUM")
    loop.close(total, following)
    return [loop.output(following, "REVERSE" if reverse else "CONCATENATE", axis, length)]
