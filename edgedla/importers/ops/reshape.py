"""Operators that change dims or move data without computing: Reshape, Transpose, Squeeze, Concat, Shape, DepthToSpace, ..."""

from __future__ import annotations

from typing import Any, List, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import flatten as flatten_layer
from edgedla.importers.broadcast import squeeze as squeeze_layer
from edgedla.importers.broadcast import transpose as transpose_layer
from edgedla.importers.broadcast import unsqueeze as unsqueeze_layer
from edgedla.importers.context import Context
from edgedla.importers.dtypes import rank_of, refuse_types
from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node, positive_axis
from edgedla.importers.operand import Value
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def reshape(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    keep_zero = node.integer("allowzero", 0)
    shape = st.from_input(ctx, inputs[1]) if ctx.opset >= 5 else st.vector_of(node.ints("shape"))
    return [ctx.name(st.add_shuffle(ctx, x, shape, zero_is_placeholder=not keep_zero), node)]


def flatten(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    axis = positive_axis(node.integer("axis", 1), len(x.dims))
    if len(x.dims) == 2 and axis == 1:
        return [ctx.identity(inputs[0])]
    return [flatten_layer(ctx, x, axis, node)]


def transpose(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    rank = rank_of(inputs[0])
    if rank > shapes.MAX_DIMS:
        raise Refused(
            "The rank of the input tensor exceeds the maximum supported by this version of TensorRT. "
            f"Current rank of inputs = {rank}, max supported rank = {shapes.MAX_DIMS}."
        )
    perm = node.ints("perm") if node.has("perm") else list(range(rank - 1, -1, -1))
    return [transpose_layer(ctx, ctx.tensor(inputs[0]), perm, node)]


def squeeze(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    axes: List[int] = []
    if ctx.opset >= 13:
        if len(inputs) == 2 and inputs[1] is not None:
            if not isinstance(inputs[1], Weights):
                raise Refused("Squeeze axes input must be an initializer!")
            axes = inputs[1].integers()
    else:
        axes = node.ints("axes")
    if not axes:
        if any(d < 0 for d in x.dims):
            raise Refused(
                "Cannot infer squeeze dimensions from a dynamic shape! "
                "Please re-export your model with the Squeeze axes input set."
            )
        axes = [i for i, d in enumerate(x.dims) if d == 1]
    fixed = [positive_axis(a, len(x.dims)) for a in axes]
    given = inputs[1] if ctx.opset >= 13 and len(inputs) == 2 else None
    return [squeeze_layer(ctx, x, fixed, node, given)]


def unsqueeze(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    axes: List[int] = []
    if ctx.opset >= 13 and len(inputs) == 2:
        given = st.from_input(ctx, inputs[1])
        if not given.known:
            raise Refused("Axes input for unsqueeze operation should be a constant tensor.")
        axes = given.numbers()
    if not axes:
        axes = list(node.required("axes").ints)
    rank = len(x.dims) + len(axes)
    fixed = [positive_axis(a, rank) for a in axes]
    return [unsqueeze_layer(ctx, x, fixed, node, inputs[1] if ctx.opset >= 13 and len(inputs) == 2 else None)]


def concat(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    tensors = [ctx.tensor(x) for x in inputs]
    axis = positive_axis(node.required_int("axis"), rank_of(inputs[0]))
    return [ctx.name(shapes.concatenation(ctx.net, tensors, axis), node)]


def shape(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    out = shapes.shape(ctx.net, x, ctx.index_type)
    ctx.net.register(out, node.name)
    if not ctx.v10:
        if node.has("start") or node.has("end"):
            ctx.departs(node, "ignores start and end and gives all dims; take a part of them with Slice or Gather")
        return [out]
    out = arithmetic.cast(ctx.net, out, "INT64")
    rank = len(x.dims)
    start, end = _clamped(node.integer("start", 0), rank), _clamped(node.integer("end", rank), rank)
    if (start, end) != (0, rank):
        out = shapes.slice_layer(ctx.net, out, [start], [max(end - start, 0)], [1])
    return [out]


def _clamped(index: int, rank: int) -> int:
    return min(max(index + rank if index < 0 else index, 0), rank)


def _in_blocks(ctx: Context, node: Node, given: Value, layout: str) -> Tuple[NetTensor, st.ShapeTensor, List[st.ShapeTensor]]:
    """(the tensor, the size of its blocks, its four dims)."""
    refuse_types(given, "BOOL", "UINT8")
    if rank_of(given) != 4:
        raise Refused(f"The input tensor must be in {layout} format.")
    x, size = ctx.tensor(given), node.required_int("blocksize")
    if size <= 0:
        raise Refused(f"blocksize {size} must be positive")
    dims = st.shape_of(x)
    return x, st.vector(size), [st.gather(ctx, dims, st.vector(i)) for i in range(4)]


def depth_to_space(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """Reshape to six dims, transpose, reshape back."""
    x, block, (n, c, h, w) = _in_blocks(ctx, node, inputs[0], "NCHW")
    channels = st.floor_div(ctx, c, st.mul(ctx, block, block))
    if node.text("mode", "DCR") == "DCR":
        first, perm = [n, block, block, channels, h, w], [0, 3, 4, 1, 5, 2]
    else:
        first, perm = [n, channels, block, block, h, w], [0, 1, 4, 2, 5, 3]
    second = [n, channels, st.mul(ctx, h, block), st.mul(ctx, w, block)]
    return [_two_shuffles(ctx, node, x, first, perm, second)]


def space_to_depth(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x, block, (n, c, h, w) = _in_blocks(ctx, node, inputs[0], "the NCHW")
    channels = st.mul(ctx, c, st.mul(ctx, block, block))
    rows, columns = st.floor_div(ctx, h, block), st.floor_div(ctx, w, block)
    first = [n, c, rows, block, columns, block]
    return [_two_shuffles(ctx, node, x, first, [0, 3, 5, 1, 2, 4], [n, channels, rows, columns])]


def _two_shuffles(
    ctx: Context, node: Node, x: NetTensor, first: List[st.ShapeTensor], perm: List[int], second: List[st.ShapeTensor]
) -> Any:
    def joined(parts: List[st.ShapeTensor]) -> st.ShapeTensor:
        out = parts[-1]
        for part in reversed(parts[:-1]):
            out = st.concat(ctx, part, out)
        return out

    dims = joined(first)
    if dims.known:
        out = shapes.shuffle(ctx.net, x, reshape=dims.numbers(), second=perm, zero_is_placeholder=False)
    else:
        target = st.tensor_of(ctx, dims)
        out = shapes.shuffle(ctx.net, x, reshape_tensor=target, second=perm, zero_is_placeholder=False)
    ctx.helper_name(out, "ONNXTRT_ShapeShuffle")
    ctx.net.register(out, node.name)
    return st.add_shuffle(ctx, out, joined(second))
