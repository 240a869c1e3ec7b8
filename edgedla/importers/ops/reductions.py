"""Reduce operators, Softmax, LogSoftmax, ArgMax, TopK."""

from __future__ import annotations

from typing import Any, List, Optional

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import constant_of_shape, flatten, squeeze, to_scalar, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.dtypes import rank_of, refuse_types
from edgedla.importers.network import arithmetic, dense, selection
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node, positive_axis
from edgedla.importers.operand import Value
from edgedla.importers.ops.elementwise import combine, unary_layer
from edgedla.importers.ops.slicing import decode_bounds, slice_sizes
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def reduce_layer(ctx: Context, node: Node, x: Value, op: str, axes_input: Any = None) -> NetTensor:
    if ctx.v10:
        refuse_types(x, "BOOL", "UINT8")
    t = ctx.tensor(x)
    rank = len(t.dims)
    axes: List[int] = []
    if node.has("axes"):
        axes = node.ints("axes")
    elif axes_input is not None:
        if not isinstance(axes_input, Weights):
            raise Refused("Axis input must be an initializer!")
        axes = axes_input.integers()
    # 8 knows no axes left empty: an empty axes input reduces nothing, which TensorRT refuses from 8.5 on.
    if not axes and (ctx.v10 or (axes_input is None and not node.has("axes"))):
        if ctx.v10 and node.integer("noop_with_empty_axes", 0) == 1:
            out: NetTensor = ctx.tensor(ctx.identity(x))
            return out
        axes = list(range(rank))
    fixed = [positive_axis(a, rank) for a in axes]
    if not fixed and ctx.parser.reduces_no_axes:
        if not node.integer("noop_with_empty_axes", 0):
            ctx.departs(node, "reduces no axis where the axes are empty; name all of them")
        return ctx.name(ctx.net.emit("REDUCE", [t], {"op": op, "axes": [], "keep_dims": True}, t.dims, t.dtype), node)
    return ctx.name(dense.reduce(ctx.net, t, op, fixed, bool(node.integer("keepdims", 1))), node)


def _axes(ctx: Context, node: Node, inputs: List[Value], since: int) -> Any:
    """The axes input, where the parser reads it: 10.3 in every Reduce, 8.6 in ReduceSum alone."""
    if len(inputs) >= 2 and ctx.opset >= since:
        return inputs[1]
    return None


#: Text of the note on an axes input that the parser does not read.
AXES_LOST = "ignores the axes input of opset 18 and reduces all axes; export with opset 17 or before"


def _axes_since_18(ctx: Context, node: Node, inputs: List[Value]) -> Any:
    axes = _axes(ctx, node, inputs, 18)
    if ctx.v10:
        return axes
    _lose_axes(ctx, node, inputs, axes)
    return None


def _lose_axes(ctx: Context, node: Node, inputs: List[Value], axes: Any) -> None:
    """Notes that the parser reduces all axes instead of `axes`; no note if `axes` are all axes."""
    if axes is None:
        return
    given = axes.array() if isinstance(axes, Weights) else None
    if given is not None:
        all_meant = given.size == rank_of(inputs[0]) if given.size else not node.integer("noop_with_empty_axes", 0)
        if all_meant:
            return
    ctx.departs(node, AXES_LOST)


def _is_noop(ctx: Context, node: Node, inputs: List[Value]) -> bool:
    return ctx.v10 and node.integer("noop_with_empty_axes", 0) == 1 and not node.has("axes") and len(inputs) == 1


def reduce(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
    return [reduce_layer(ctx, node, inputs[0], op, _axes_since_18(ctx, node, inputs))]


def reduce_sum(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    return [reduce_layer(ctx, node, inputs[0], "SUM", _axes(ctx, node, inputs, 13))]


def reduce_l1(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if _is_noop(ctx, node, inputs):
        return [ctx.identity(inputs[0])]
    magnitude = unary_layer(ctx, node, inputs[0], "ABS")
    return [reduce_layer(ctx, node, magnitude, "SUM", _axes_since_18(ctx, node, inputs))]


def _sum_square(ctx: Context, node: Node, inputs: List[Value]) -> NetTensor:
    x = ctx.tensor(inputs[0])
    squared = arithmetic.elementwise(ctx.net, x, x, "PROD")
    return reduce_layer(ctx, node, squared, "SUM", _axes_since_18(ctx, node, inputs))


def reduce_sum_square(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if _is_noop(ctx, node, inputs):
        return [ctx.identity(inputs[0])]
    return [_sum_square(ctx, node, inputs)]


def reduce_l2(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if _is_noop(ctx, node, inputs):
        return [ctx.identity(inputs[0])]
    return [unary_layer(ctx, node, _sum_square(ctx, node, inputs), "SQRT")]


def reduce_log_sum(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if _is_noop(ctx, node, inputs):
        return [ctx.identity(inputs[0])]
    total = reduce_sum(ctx, node, inputs)[0]
    return [unary_layer(ctx, node, total, "LOG")]


def reduce_log_sum_exp(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if _is_noop(ctx, node, inputs):
        return [ctx.identity(inputs[0])]
    power = unary_layer(ctx, node, inputs[0], "EXP")
    # The axes input is lost on the way, so that all axes are reduced: a fault of the parser, kept as it is.
    _lose_axes(ctx, node, inputs, _axes(ctx, node, inputs, 18))
    return reduce_log_sum(ctx, node, [power])


def softmax_layer(ctx: Context, node: Node, x: NetTensor) -> NetTensor:
    axis = positive_axis(node.integer("axis", -1 if ctx.opset >= 13 else 1), len(x.dims))
    if ctx.opset >= 13:
        out = dense.softmax(ctx.net, x, axis)
    else:
        out = dense.softmax(ctx.net, flatten(ctx, x, axis), 1)
    return ctx.name(out, node)


def softmax(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    out = softmax_layer(ctx, node, x)
    return [st.add_shuffle(ctx, out, st.shape_of(x))]


def log_softmax(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    out = arithmetic.unary(ctx.net, softmax_layer(ctx, node, x), "LOG")
    return [st.add_shuffle(ctx, out, st.shape_of(x))]


def arg_min_max(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
    last = node.integer("select_last_index", 0)
    if last and ctx.opset < 12:
        raise Refused("Per-opset 12 ONNX does not support the select_last_index attribute.")
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    axis = positive_axis(node.integer("axis", 0), rank)
    if axis >= rank:
        raise Refused(f"TopK axis {axis} invalid for rank {rank}")
    flipped = _top_k_operand(ctx, _flipped(ctx, x, axis) if last else x)
    best = selection.top_k(ctx.net, flipped, op, 1, axis)
    ctx.net.register(best[0], node.name)
    indices = best[1]
    if ctx.v10:
        indices = ctx.cast_helper(indices, "INT64")
    if last:
        indices = _forward_indices(ctx, node, x, indices, axis)
    if not node.integer("keepdims", 1):
        indices = squeeze(ctx, indices, [axis])
    if ctx.v10:
        indices = ctx.cast_helper(indices, "INT64")
    return [indices]


def _top_k_operand(ctx: Context, x: NetTensor) -> NetTensor:
    """`x` in a type that TOPK takes: older parsers refuse INT32, or cast it to FLOAT.

    Raises:
        Refused: it is INT32 and the parser is older.
    """
    if x.dtype == "INT32":
        if ctx.parser.top_k_refuses_int32:
            raise Refused("Found invalid input type of INT32")
        if ctx.parser.top_k_casts_int32:
            return ctx.cast_helper(x, "FLOAT")
    return x


def _flipped(ctx: Context, x: NetTensor, axis: int) -> NetTensor:
    """`x` reversed along one axis by a SLICE."""
    dims = st.shape_of(x)
    starts, ends, steps = st.vector(-1), st.vector(-(1 << 31)), st.vector(-1)
    if len(x.dims) > 1:
        subscripts = st.interlace_subscripts(st.vector(axis), len(x.dims))
        starts = st.interlace(ctx, st.similar(ctx, dims, 0), starts, subscripts)
        ends = st.interlace(ctx, dims, ends, subscripts)
        steps = st.interlace(ctx, st.similar(ctx, dims, 1), steps, subscripts)
    starts, ends = decode_bounds(ctx, dims, steps, starts, ends)
    sizes = slice_sizes(ctx, starts, ends, steps, dims)
    return st.add_slice(ctx, x, starts, sizes, steps)


def _forward_indices(ctx: Context, node: Node, x: NetTensor, indices: NetTensor, axis: int) -> NetTensor:
    """size - indices - 1"""
    at = st.vector(axis) if ctx.parser.last_index_by_vector else st.scalar(axis)
    size = st.gather(ctx, st.shape_of(x), at)
    shape = st.shape_of(indices)
    one_tensor: Optional[NetTensor] = None
    size_tensor = st.tensor_of(ctx, size)
    sizes = constant_of_shape(ctx, size_tensor, st.tensor_of(ctx, shape))
    one_tensor = st.tensor_of(ctx, st.vector(1))
    ones = constant_of_shape(ctx, one_tensor, st.tensor_of(ctx, shape))
    return combine(ctx, node, [sizes, indices, ones], "SUB")


def top_k(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    k = 1
    if ctx.opset < 10:
        k = node.required_int("k")
    rank = len(x.dims)
    axis = positive_axis(node.integer("axis", -1), rank)
    one_dimensional = rank == 1
    if one_dimensional:
        x = unsqueeze(ctx, x, [1])
    if axis >= len(x.dims):
        raise Refused(f"TopK axis {axis} invalid for rank {rank}")
    op = "MIN" if ctx.opset >= 11 and node.integer("largest", 1) == 0 else "MAX"
    if op == "MIN" and not ctx.parser.top_k_reads_largest:
        ctx.departs(node, "ignores largest=0 and gives the largest elements; negate the input and the values")
        op = "MAX"
    original = x.dtype
    x = _top_k_operand(ctx, x)
    k_tensor: Optional[NetTensor] = None
    if ctx.opset >= 10:
        if len(inputs) != 2:
            raise Refused(f"Expects two input tensors for opset >= 10: X and K. Current input size = {len(inputs)}.")
        if not ctx.parser.top_k_dynamic and not isinstance(inputs[1], Weights):
            raise Refused("This version of TensorRT only supports input K as an initializer.")
        # The layer is made before the constant for k.
        number = ctx.net.number_of_layers
        ctx.net.number_of_layers += 1
        k_tensor = to_scalar(ctx, ctx.tensor(inputs[1]))
        made = selection.top_k(ctx.net, x, op, k, axis, k_tensor)
        ctx.net.renumber(made, number)
    else:
        made = selection.top_k(ctx.net, x, op, k, axis)
    ctx.net.register(made[0], node.name)
    values, indices = made
    if one_dimensional:
        values = squeeze(ctx, values, [1])
        indices = squeeze(ctx, indices, [1])
    if values.dtype != original:
        values = ctx.cast_helper(values, original)
    if ctx.v10:
        indices = ctx.cast_helper(indices, "INT64")
    return [values, indices]
