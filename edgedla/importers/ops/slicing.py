"""Slice, Split, Pad, Expand, Tile: all of them SLICE layers."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.context import Context
from edgedla.importers.dtypes import rank_of, refuse_types
from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.known import integers_of
from edgedla.importers.node import Node, positive_axis, single_axis
from edgedla.importers.ops.windows import padding_tensors
from edgedla.importers.refuse import CannotTell, Refused
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
        if not axes.known and not ctx.v10:
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
    if ctx.v10:
        return [_slice_axes(ctx, node, x, starts, ends, steps, axes)]
    dims = st.shape_of(x)
    if axes.numbers() != list(range(rank)):
        subscripts = st.interlace_subscripts(axes, rank)
        starts = st.interlace(ctx, st.similar(ctx, dims, 0), starts, subscripts)
        ends = st.interlace(ctx, dims, ends, subscripts)
        steps = st.interlace(ctx, st.similar(ctx, dims, 1), steps, subscripts)
    starts, ends = decode_bounds(ctx, dims, steps, starts, ends)
    sizes = st.slice_sizes(ctx, starts, ends, steps, dims)
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
    """10.3: start, size and stride of the sliced axes alone; axes that a tensor holds become an input."""
    dims = st.gather(ctx, st.shape_of(x), axes)
    starts, ends = decode_bounds(ctx, dims, steps, starts, ends)
    sizes = st.slice_sizes(ctx, starts, ends, steps, dims)
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


def split(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    dims = st.shape_of(x)
    axis = positive_axis(node.integer("axis", 0), rank)
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
        if ctx.v10 and by_input and ctx.opset >= 18 and node.has("num_outputs"):
            raise Refused(
                "Either 'split' should be provided as an input or 'num_outputs' should be provided as an attribute. "
                "But not both."
            )
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
        along, last = _equal_parts(ctx, node, st.gather(ctx, dims, st.vector(axis)), count)
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


def _equal_parts(
    ctx: Context, node: Node, whole: st.ShapeTensor, count: int
) -> Tuple[st.ShapeTensor, Optional[st.ShapeTensor]]:
    """Size of each part, and of the last one where it differs: 10.3 rounds up and leaves the rest, 8.6 rounds down."""
    if not ctx.v10:
        return st.floor_div(ctx, whole, st.vector(count)), None
    if ctx.opset >= 18 and node.has("num_outputs") and node.integer("num_outputs", count) != count:
        raise Refused(
            "The number of node outputs is not the same as the value of 'num_outputs' attribute. "
            f"num_outputs attribute value = {node.integer('num_outputs', count)}, number of node outputs = {count}."
        )
    along = st.floor_div(ctx, st.add(ctx, whole, st.vector(count - 1)), st.vector(count))
    last = st.sub(ctx, whole, st.mul(ctx, along, st.vector(count - 1)))
    if last.known and last.numbers()[0] < 0:
        raise Refused("The last chunk size is negative, see details in https://github.com/onnx/onnx/issues/5766")
    return along, last


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


def _pads_of_all_axes(pads: List[int], axes: List[int], rank: int) -> List[int]:
    """Pads of some axes (opset 18) spread over all of them."""
    if len(pads) != 2 * len(axes):
        raise Refused("pads and axes of Pad do not fit each other")
    out = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        out[axis], out[rank + axis] = pads[i], pads[len(axes) + i]
    return out


def _dynamic_padding(
    ctx: Context, pads_input: Any, rank: int, axes: Optional[List[int]]
) -> Tuple[NetTensor, NetTensor]:
    """Start and total padding of pads that a tensor holds."""
    pads = ctx.tensor(pads_input)
    count = rank if axes is None else len(axes)
    if len(pads.dims) != 1:
        raise Refused(f"The padding input must be 1D. The rank of padding input = {len(pads.dims)}.")
    if pads.dims[0] != count * 2:
        raise Refused(f"pads should be a 1D tensor of shape {2 * count}, actual shape is: {pads.dims[0]}")
    net = ctx.net
    before = shapes.slice_layer(net, pads, [0], [count], [1])
    after = shapes.slice_layer(net, pads, [count], [count], [1])
    zeros = ctx.constant([0] * count, ctx.index_type)
    start = arithmetic.elementwise(net, zeros, before, "SUB")
    total = arithmetic.elementwise(net, before, after, "SUM")
    if axes is None:
        return start, total
    subscripts = st.interlace_subscripts(st.vector_of(axes), rank)
    whole = st.vector_of([0] * rank)
    start = st.tensor_of(ctx, st.interlace(ctx, whole.copy(), st.from_tensor(start), subscripts))
    total = st.tensor_of(ctx, st.interlace(ctx, whole.copy(), st.from_tensor(total), subscripts))
    return start, total


def _fill_value(ctx: Context, node: Node, inputs: List[Any]) -> Tuple[float, Optional[NetTensor]]:
    """The padding value as a number, or as a tensor where it is no constant float."""
    if ctx.opset < 11:
        return node.number("value", 0.0), None
    if len(inputs) < 3 or inputs[2] is None:
        return 0.0, None
    given = inputs[2]
    if isinstance(given, Weights) and given.dtype in ("FLOAT", "HALF", "BF16"):
        if given.count != 1:
            raise Refused("The input constant_value is required to be a scalar.")
        return float(given.known().ravel()[0]), None
    return 0.0, ctx.tensor(given)


def _pad_axes(ctx: Context, inputs: List[Any], rank: int) -> Optional[List[int]]:
    if len(inputs) < 4 or inputs[3] is None:
        return None
    if not ctx.v10 or not isinstance(inputs[3], Weights):
        raise Refused("TensorRT does not support dynamic axes for pad!")
    axes = [single_axis(a, rank) for a in inputs[3].integers()]
    if len(set(axes)) != len(axes):
        raise Refused("No duplicated axes are allowed.")
    return axes


def pad(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    """A SLICE that starts before the input and ends after it."""
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    mode = PAD_MODES.get(node.text("mode", "constant"))
    if mode is None or (mode == "WRAP" and not ctx.v10):
        raise Refused("Unsupported pad mode")
    pads: List[int] = []
    axes: Optional[List[int]] = None
    if ctx.opset < 11:
        pads = list(node.required("pads").ints)
        if not pads:
            return [ctx.identity(inputs[0])]
    else:
        if isinstance(inputs[1], Weights):
            pads = inputs[1].integers()
        axes = _pad_axes(ctx, inputs, rank)
    value, fill = _fill_value(ctx, node, inputs)
    if pads:
        if axes is not None:
            pads = _pads_of_all_axes(pads, axes, rank)
        if not any(pads):
            return [ctx.identity(inputs[0])]
        start, total = padding_tensors(ctx, rank, pads)
    else:
        start, total = _dynamic_padding(ctx, inputs[1], rank, axes)
    size = arithmetic.elementwise(ctx.net, st.tensor_of(ctx, st.shape_of(x)), total, "SUM")
    number = ctx.net.number_of_layers
    if mode != "FILL":
        fill = None
    elif fill is None and value != 0.0:
        # The layer is made before the constant that it is filled with.
        ctx.net.number_of_layers += 1
        dtype = {"HALF": "HALF", "BF16": "BF16", "FLOAT": "FLOAT", "INT8": "FLOAT"}.get(x.dtype, "INT32")
        fill = ctx.constant([value], dtype, ())
    out = shapes.slice_layer(ctx.net, x, start, size, [1] * rank, mode=mode, fill=fill)
    if ctx.net.number_of_layers > number + 1:
        ctx.net.renumber([out], number)
    return [ctx.name(out, node)]
