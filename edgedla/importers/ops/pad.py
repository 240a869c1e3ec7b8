"""Pad: a SLICE that starts before the input and ends after it."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.context import Context
from edgedla.importers.dtypes import refuse_types
from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node, single_axis
from edgedla.importers.operand import Value, weights_in
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def padding_tensors(ctx: Context, rank: int, pads: List[int]) -> Tuple[NetTensor, NetTensor]:
    """ONNX pads (all befores, all afters, of the last axes) as a slice's start and the total padding.

    Raises:
        Refused: ill-formed padding, or negative one, which crops, before 10.4.
    """
    missing = rank - len(pads) // 2
    if len(pads) % 2 or missing < 0:
        raise Refused("Failed to convert padding!")
    half = len(pads) // 2
    start, total = [0] * rank, [0] * rank
    for i in range(half):
        before, after = pads[i], pads[half + i]
        if (before < 0 or after < 0) and not ctx.parser.negative_pads:
            raise Refused("Failed to convert padding!")
        start[missing + i], total[missing + i] = -before, before + after
    return ctx.constant(start, ctx.index_type), ctx.constant(total, ctx.index_type)


PAD_MODES = {"constant": "FILL", "reflect": "REFLECT", "edge": "CLAMP", "wrap": "WRAP"}


def _pads_of_all_axes(pads: List[int], axes: List[int], rank: int) -> List[int]:
    """Pads of some axes (opset 18) spread over all of them."""
    if len(pads) != 2 * len(axes):
        raise Refused("pads and axes of Pad do not fit each other")
    out = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        out[axis], out[rank + axis] = pads[i], pads[len(axes) + i]
    return out


def _dynamic_padding(ctx: Context, pads_input: Any, rank: int, axes: Optional[List[int]]) -> Tuple[NetTensor, NetTensor]:
    """Start and total padding of pads that are a network tensor."""
    pads = ctx.tensor(pads_input)
    count = rank if axes is None else len(axes)
    if len(pads.dims) != 1:
        raise Refused(f"The padding input must be 1D. The rank of padding input = {len(pads.dims)}.")
    if pads.dims[0] != count * 2:
        raise Refused(f"pads should be a 1D tensor of shape {2 * count}, actual shape is: {pads.dims[0]}")
    if axes is not None:
        pads, count = _spread_padding(ctx, pads, rank, axes), rank
    net = ctx.net
    before = shapes.slice_layer(net, pads, [0], [count], [1])
    after = shapes.slice_layer(net, pads, [count], [count], [1])
    zeros = ctx.constant([0] * count, ctx.index_type)
    start = arithmetic.elementwise(net, zeros, before, "SUB")
    total = arithmetic.elementwise(net, before, after, "SUM")
    return start, total


def _spread_padding(ctx: Context, pads: NetTensor, rank: int, axes: List[int]) -> NetTensor:
    """Pads of some axes, held by a network tensor, as a tensor of the pads of all axes."""
    count = len(axes)
    subscripts = st.interlace_subscripts(st.vector_of(axes), rank)
    halves = []
    for first in (0, count):
        half = st.from_tensor(shapes.slice_layer(ctx.net, pads, [first], [count], [1]))
        halves.append(st.interlace(ctx, st.vector_of([0] * rank), half, subscripts))
    return st.tensor_of(ctx, st.concat(ctx, halves[0], halves[1]))


def _fill_value(ctx: Context, node: Node, inputs: List[Value]) -> Tuple[float, Optional[NetTensor]]:
    """The padding value: a number if it is a constant float, otherwise a tensor."""
    if ctx.opset < 11:
        return node.number("value", 0.0), None
    if len(inputs) < 3 or inputs[2] is None or (len(inputs) > 3 and not ctx.parser.pad_sees_axes):
        return 0.0, None
    given = inputs[2]
    if isinstance(given, Weights) and given.dtype in ("FLOAT", "HALF", "BF16"):
        if given.count != 1:
            raise Refused("The input constant_value is required to be a scalar.")
        return float(given.known().ravel()[0]), None
    return 0.0, ctx.tensor(given)


def _pad_axes(ctx: Context, inputs: List[Value], rank: int) -> Optional[List[int]]:
    if len(inputs) < 4 or inputs[3] is None:
        return None
    if not ctx.parser.pad_sees_axes:
        return None
    if not ctx.v10 or not isinstance(inputs[3], Weights):
        raise Refused("TensorRT does not support dynamic axes for pad!")
    axes = [single_axis(a, rank) for a in inputs[3].integers()]
    if len(set(axes)) != len(axes):
        raise Refused("No duplicated axes are allowed.")
    return axes


def pad(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """A SLICE that starts before the input and ends after it."""
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    mode = PAD_MODES.get(node.text("mode", "constant"))
    if not ctx.parser.zero_pad_before_mode:
        _check_mode(ctx, mode)
    pads: List[int] = []
    axes: Optional[List[int]] = None
    if ctx.opset < 11:
        pads = list(node.required("pads").ints)
        if not pads:
            return [ctx.identity(inputs[0])]
    else:
        if isinstance(inputs[1], Weights):
            pads = inputs[1].integers()
        if len(inputs) > 3 and inputs[3] is not None and not ctx.parser.pad_sees_axes:
            ctx.departs(node, "ignores the axes input and pads the last axes; name the pads of all axes")
        axes = _pad_axes(ctx, inputs, rank)
    if pads:
        if axes is not None:
            pads = _pads_of_all_axes(pads, axes, rank)
        if not any(pads):
            return [ctx.identity(inputs[0])]
    _check_mode(ctx, mode)
    if ctx.parser.static_pad:
        return [_pad_axes_alone(ctx, node, inputs, x, str(mode))]
    value, fill = _fill_value(ctx, node, inputs)
    if pads:
        start, total = padding_tensors(ctx, rank, pads)
    else:
        start, total = _dynamic_padding(ctx, inputs[1], rank, axes)
    size = arithmetic.elementwise(ctx.net, st.tensor_of(ctx, st.shape_of(x)), total, "SUM")
    return [_padded(ctx, node, x, start, size, [1] * rank, None, str(mode), value, fill)]


def _check_mode(ctx: Context, mode: Optional[str]) -> None:
    if mode is None or (mode == "WRAP" and not ctx.v10):
        raise Refused("Unsupported pad mode")


def _pad_axes_alone(ctx: Context, node: Node, inputs: List[Value], x: NetTensor, mode: str) -> NetTensor:
    """Since 10.5: start and size of the padded axes alone, as numbers where all of them are known."""
    value, fill = _fill_value(ctx, node, inputs)
    rank = len(x.dims)
    given = _pad_axes(ctx, inputs, rank) if ctx.opset >= 11 else None
    axes = list(range(rank)) if given is None else given
    count = len(axes)
    if ctx.opset < 11 or isinstance(inputs[1], Weights):
        pads = list(node.required("pads").ints) if ctx.opset < 11 else weights_in(inputs[1]).integers()
        if len(pads) != 2 * count:
            raise Refused(f"pads should hold {2 * count} values, they hold {len(pads)}")
        before, after = st.vector_of(pads[:count]), st.vector_of(pads[count:])
    else:
        pads_tensor = ctx.tensor(inputs[1])
        if pads_tensor.dims != (2 * count,):
            raise Refused(f"pads should be a 1D tensor of shape {2 * count}, actual dims: {list(pads_tensor.dims)}")
        before = st.from_tensor(shapes.slice_layer(ctx.net, pads_tensor, [0], [count], [1]))
        after = st.from_tensor(shapes.slice_layer(ctx.net, pads_tensor, [count], [count], [1]))
    start = st.sub(ctx, st.vector_of([0] * count), before)
    dims = st.gather(ctx, st.shape_of(x), st.vector_of(axes))
    size = st.add(ctx, dims, st.add(ctx, before, after))
    if size.known and any(n < 0 for n in size.numbers()):
        raise Refused(f"pads crop more than there is: sizes {size.numbers()}")
    first, second = (s.numbers() if s.known else st.tensor_of(ctx, s) for s in (start, size))
    return _padded(ctx, node, x, first, second, [1] * count, axes, mode, value, fill)


def _padded(
    ctx: Context,
    node: Node,
    x: NetTensor,
    start: Any,
    size: Any,
    stride: List[int],
    axes: Optional[List[int]],
    mode: str,
    value: float,
    fill: Optional[NetTensor],
) -> NetTensor:
    number = ctx.net.number_of_layers
    if mode != "FILL":
        fill = None
    elif fill is None and value != 0.0:
        # The layer is made before the constant that it is filled with.
        ctx.net.number_of_layers += 1
        dtype = {"HALF": "HALF", "BF16": "BF16", "FLOAT": "FLOAT", "INT8": "FLOAT"}.get(x.dtype, "INT32")
        fill = ctx.constant([value], dtype, ())
    out = shapes.slice_layer(ctx.net, x, start, size, stride, axes=axes, mode=mode, fill=fill)
    if ctx.net.number_of_layers > number + 1:
        ctx.net.renumber([out], number)
    return ctx.name(out, node)
