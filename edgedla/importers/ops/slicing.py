"""Slice, Split, Pad, Expand, Tile: all of them SLICE layers."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.context import Context
from edgedla.importers.dtypes import rank_of, refuse_types
from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node, positive_axis
from edgedla.importers.ops.windows import padding_tensors
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def decode_bounds(
    ctx: Context, dims: st.ShapeTensor, steps: st.ShapeTensor, starts: st.ShapeTensor, ends: st.ShapeTensor
) -> Tuple[st.ShapeTensor, st.ShapeTensor]:
    """ONNX starts and ends (negative, out of range) as the indices that are meant."""
    sign = st.clamp(ctx, steps, st.vector(-1), st.vector(0))
    starts = st.bump_if_negative(ctx, dims, starts)
    starts = st.clamp(ctx, starts, st.vector(0), st.add(ctx, dims, sign))
    ends = st.bump_if_negative(ctx, dims, ends)
    ends = st.clamp(ctx, ends, sign, dims)
    return starts, ends


def slice_op(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    if ctx.opset >= 10 and not 3 <= len(inputs) <= 5:
        raise Refused("Post-opset 10 Slice operator requires 3 - 5 inputs.")
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    dims = st.shape_of(x)
    if ctx.opset >= 10:
        given = (inputs + [None, None])[1:5]
        if ctx.v10 and _all_int32(given) and all(d >= 0 for d in x.dims):
            return [_static_slice(ctx, node, x, given)]
        if ctx.v10:
            starts = st.from_tensor(ctx.cast_helper(ctx.tensor(given[0]), "INT64"))
            ends = st.from_tensor(ctx.cast_helper(ctx.tensor(given[1]), "INT64"))
        else:
            starts, ends = st.from_input(ctx, given[0]), st.from_input(ctx, given[1])
        axes = st.iota(rank) if given[2] is None else st.from_input(ctx, given[2])
        if not axes.known:
            raise Refused("This version of TensorRT does not support dynamic axes.")
        for what, s in (("starts", starts), ("ends", ends)):
            if s.size != axes.size:
                raise Refused(
                    f"The shape of input {what} misaligns with the shape of input axes. "
                    f"Shape of input {what} = {s.size}, shape of input axes = {axes.size}."
                )
        steps = st.similar(ctx, starts, 1) if given[3] is None else st.from_input(ctx, given[3])
    else:
        starts, ends = st.vector_of(node.ints("starts")), st.vector_of(node.ints("ends"))
        axes = st.vector_of(node.ints("axes")) if node.has("axes") else st.iota(starts.size)
        steps = st.similar(ctx, starts, 1)
    fixed = []
    for axis in axes.numbers():
        if not -rank <= axis < rank:
            raise Refused(
                "The range of axis must be in [-r, r-1], where r is the rank of input data. "
                f"Provided axis = {axis}, r = {rank}."
            )
        fixed.append(axis + rank if axis < 0 else axis)
    if len(set(fixed)) != len(fixed):
        raise Refused("No duplicated axes are allowed.")
    if len(fixed) != starts.size or len(fixed) != ends.size:
        raise Refused("starts, ends and axes of Slice must be of one length")
    axes = st.vector_of(fixed)
    if ctx.v10:
        return [_slice_axes(ctx, node, x, starts, ends, steps, fixed)]
    if len(fixed) < rank or fixed != list(range(rank)):
        subscripts = st.interlace_subscripts(axes, rank)
        starts = st.interlace(ctx, st.similar(ctx, dims, 0), starts, subscripts)
        ends = st.interlace(ctx, dims, ends, subscripts)
        steps = st.interlace(ctx, st.similar(ctx, dims, 1), steps, subscripts)
    starts, ends = decode_bounds(ctx, dims, steps, starts, ends)
    sizes = st.slice_sizes(ctx, starts, ends, steps, dims)
    sizes = st.maximum(ctx, st.similar(ctx, dims, 0), sizes)
    return [ctx.name(st.add_slice(ctx, x, starts, sizes, steps), node)]


def _slice_axes(
    ctx: Context,
    node: Node,
    x: NetTensor,
    starts: st.ShapeTensor,
    ends: st.ShapeTensor,
    steps: st.ShapeTensor,
    axes: List[int],
) -> NetTensor:
    """10.3: start, size and stride of the sliced axes alone."""
    dims = st.gather(ctx, st.shape_of(x), st.vector_of(axes))
    starts, ends = decode_bounds(ctx, dims, steps, starts, ends)
    sizes = st.slice_sizes(ctx, starts, ends, steps, dims)
    sizes = st.maximum(ctx, st.similar(ctx, dims, 0), sizes)
    return ctx.name(st.add_slice(ctx, x, starts, sizes, steps, axes=axes), node)


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


def split(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    dims = st.shape_of(x)
    axis = positive_axis(node.int("axis", 0), rank)
    if axis >= rank:
        raise Refused(f"Split axis {axis} invalid for rank {rank}")
    subscripts = list(range(rank))
    subscripts[axis] = rank
    positions = st.vector_of(subscripts)
    count = len(node.outputs)
    listed: List[int] = []
    tensor_sizes: Optional[st.ShapeTensor] = None
    along: Optional[st.ShapeTensor] = None
    by_input = ctx.opset >= 13 and len(inputs) == 2 and inputs[1] is not None
    has_list = by_input or (ctx.opset < 13 and node.has("split"))
    last: Optional[st.ShapeTensor] = None
    if has_list:
        if not by_input:
            listed = node.ints("split")
        elif isinstance(inputs[1], Weights):
            listed = inputs[1].integers()
        else:
            tensor_sizes = st.from_input(ctx, inputs[1])
        if listed and len(listed) != count:
            raise Refused(
                "The number of the split attribute misaligns with the number of outputs. "
                f"Number of split attributes = {len(listed)}, number of outputs = {count}."
            )
    else:
        whole = st.gather(ctx, dims, st.vector(axis))
        if ctx.v10 and ctx.opset >= 18 and node.has("num_outputs"):
            # ceil(size / n), the last chunk takes what is left.
            wanted = node.int("num_outputs", count)
            if wanted != count:
                raise Refused(f"The number of node outputs {count} differs from the attribute num_outputs {wanted}.")
            along = st.sub(ctx, st.vector(0), st.floor_div(ctx, st.sub(ctx, st.vector(0), whole), st.vector(count)))
            last = st.sub(ctx, whole, st.mul(ctx, along, st.vector(count - 1)))
            if last.known and last.numbers()[0] < 0:
                raise Refused(
                    "The last chunk size is negative, see details in https://github.com/onnx/onnx/issues/5766"
                )
        else:
            along = st.floor_div(ctx, whole, st.vector(count))
    zeros, ones = st.similar(ctx, dims, 0), st.similar(ctx, dims, 1)
    starts, start = zeros, st.vector(0)
    outputs: List[Any] = []
    for i in range(count):
        if i:
            assert along is not None
            start = st.add(ctx, start, along)
            starts = st.interlace(ctx, zeros, start, positions)
        if listed:
            along = st.vector(listed[i])
        elif tensor_sizes is not None:
            along = st.gather(ctx, tensor_sizes, st.vector(i))
        elif last is not None and i == count - 1:
            along = last
        assert along is not None
        sizes = st.interlace(ctx, dims, along, positions)
        outputs.append(ctx.name(st.add_slice(ctx, x, starts, sizes, ones), node))
    return outputs


def expand(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
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


def tile(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    dims = st.shape_of(x)
    repeats = st.from_input(ctx, inputs[1])
    sizes = st.mul(ctx, dims, repeats)
    out = st.add_slice(ctx, x, st.similar(ctx, dims, 0), sizes, st.similar(ctx, dims, 1), mode="WRAP")
    return [ctx.name(out, node)]


PAD_MODES = {"constant": "FILL", "reflect": "REFLECT", "edge": "CLAMP", "wrap": "WRAP"}


def pad(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    mode = node.str("mode", "constant")
    value = 0.0
    value_tensor: Optional[NetTensor] = None
    pads: List[int] = []
    if ctx.opset < 11:
        value = node.float("value", 0.0)
        pads = list(node.required("pads").ints)
        if not pads:
            return [ctx.identity(inputs[0])]
    else:
        if isinstance(inputs[1], Weights):
            pads = inputs[1].integers()
        if len(inputs) >= 3 and inputs[2] is not None:
            if isinstance(inputs[2], Weights) and inputs[2].dtype in ("FLOAT", "HALF", "BF16"):
                if inputs[2].count != 1:
                    raise Refused("The input constant_value is required to be a scalar.")
                value = float(inputs[2].known().ravel()[0])
            else:
                value_tensor = ctx.tensor(inputs[2])
        if len(inputs) == 4 and inputs[3] is not None:
            pads = _pads_of_axes(ctx, inputs[3], pads, rank)
    if pads:
        if not any(pads):
            return [ctx.identity(inputs[0])]
        start, total = padding_tensors(ctx, rank, pads)
    else:
        start, total = _dynamic_padding(ctx, inputs[1], rank)
    size = arithmetic.elementwise(ctx.net, st.tensor_of(ctx, st.shape_of(x)), total, "SUM")
    layer_mode = PAD_MODES.get(mode)
    if layer_mode is None or (layer_mode == "WRAP" and not ctx.v10):
        raise Refused("Unsupported pad mode")
    number = ctx.net.number_of_layers
    fill = value_tensor
    if layer_mode == "FILL" and fill is None and value != 0.0:
        # The layer is made before the constant that it is filled with.
        ctx.net.number_of_layers += 1
        dtype = {"HALF": "HALF", "BF16": "BF16", "FLOAT": "FLOAT", "INT8": "FLOAT"}.get(x.dtype, "INT32")
        fill = ctx.constant([value], dtype, ())
    out = shapes.slice_layer(
        ctx.net, x, start, size, [1] * rank, mode=layer_mode, fill=fill if layer_mode == "FILL" else None
    )
    if ctx.net.number_of_layers > number + 1:
        ctx.net.renumber([out], number)
    return [ctx.name(out, node)]


def _pads_of_axes(ctx: Context, axes_input: Any, pads: List[int], rank: int) -> List[int]:
    """Pads of some axes (opset 18) spread over all of them."""
    if not ctx.v10:
        return pads
    if not isinstance(axes_input, Weights) or not pads:
        raise Refused("TensorRT does not support dynamic axes for pad!")
    axes = [positive_axis(a, rank) for a in axes_input.integers()]
    if len(pads) != 2 * len(axes) or any(a >= rank for a in axes):
        raise Refused("pads and axes of Pad do not fit each other")
    out = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        out[axis], out[rank + axis] = pads[i], pads[len(axes) + i]
    return out


def _dynamic_padding(ctx: Context, pads_input: Any, rank: int) -> Tuple[NetTensor, NetTensor]:
    pads = ctx.tensor(pads_input)
    if len(pads.dims) != 1:
        raise Refused(f"The padding input must be 1D. The rank of padding input = {len(pads.dims)}.")
    if pads.dims[0] != rank * 2:
        raise Refused(f"pads should be a 1D tensor of shape {2 * rank}, actual shape is: {pads.dims[0]}")
    net = ctx.net
    before = shapes.slice_layer(net, pads, [0], [rank], [1])
    after = shapes.slice_layer(net, pads, [rank], [rank], [1])
    zeros = ctx.constant([0] * rank, ctx.index_type)
    start = arithmetic.elementwise(net, zeros, before, "SUB")
    return start, arithmetic.elementwise(net, before, after, "SUM")
