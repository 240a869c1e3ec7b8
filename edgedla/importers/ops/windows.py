"""Conv, ConvTranspose, pooling: window attributes, and the detour of 1-D inputs through 2-D."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import squeeze, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.network import arithmetic, dense, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


@dataclass
class Window:
    """Kernel attributes of one node, one entry for each spatial axis."""

    kernel: List[int]
    stride: List[int]
    pre: List[int]
    post: List[int]
    dilation: List[int]
    output_padding: List[int]
    mode: str = "EXPLICIT_ROUND_DOWN"
    excludes_padding: bool = True


def _fitted(values: List[int], rank: int, default: int) -> List[int]:
    return [values[i] if i < len(values) else default for i in range(rank)]


def read_window(node: Node, kernel: List[int], *, excludes_padding: bool, ceil: bool = False) -> Window:
    """The node's attributes over defaults; `kernel` holds the kernel that its weights have."""
    rank = len(kernel)
    ones, zeros = [1] * rank, [0] * rank
    w = Window(kernel, ones, zeros, list(zeros), ones, list(zeros), excludes_padding=excludes_padding)
    has = node.attributes
    if "kernel_shape" in has:
        w.kernel = _fitted(list(has["kernel_shape"].ints), rank, 1)
    if "strides" in has:
        w.stride = _fitted(list(has["strides"].ints), rank, 1)
    if "dilations" in has:
        w.dilation = _fitted(list(has["dilations"].ints), rank, 1)
    if "count_include_pad" in has:
        w.excludes_padding = has["count_include_pad"].i != 1
    if "output_padding" in has:
        w.output_padding = _fitted(list(has["output_padding"].ints), rank, 0)
    if ceil:
        w.mode = "EXPLICIT_ROUND_UP"
    auto = node.text("auto_pad", "NOTSET")
    if auto in ("SAME_LOWER", "SAME_UPPER"):
        if "pads" in has:
            raise Refused("Pads attribute should not be specified with SAME_LOWER or SAME_UPPER auto padding!")
        w.mode = auto
    else:
        if "pads" in has:
            pads = list(has["pads"].ints)
            half = len(pads) // 2
            w.pre = [pads[i] if i < half else 0 for i in range(rank)]
            w.post = [pads[i + half] if i < half else 0 for i in range(rank)]
        if auto == "EXPLICIT_ROUND_UP":
            w.mode = auto
    if any(k <= 0 for k in w.kernel) or any(s <= 0 for s in w.stride) or any(d <= 0 for d in w.dilation):
        raise Refused(f"kernel {w.kernel}, stride {w.stride} and dilation {w.dilation} must be positive")
    return w


def conv(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    if isinstance(inputs[1], NetTensor) or (len(inputs) > 2 and isinstance(inputs[2], NetTensor)):
        return [_conv_with_inputs(ctx, node, inputs)]
    x = ctx.tensor(inputs[0])
    one_dimensional = len(x.dims) == 3
    if one_dimensional:
        x = unsqueeze(ctx, x, [3])
    weights: Tuple[int, ...] = inputs[1].dims
    if len(weights) == 3:
        weights = (*weights, 1)
    spatial = len(x.dims) - 2
    if spatial != len(weights) - 2 or spatial < 1:
        raise Refused(
            "The number of spatial dimensions and the kernel shape doesn't match up for the Conv operator. "
            f"Number of spatial dimensions = {spatial}, number of kernel dimensions = {len(weights)}."
        )
    has_bias = len(inputs) == 3 and inputs[2] is not None
    if has_bias:
        bias = inputs[2].dims or (1,)
        if len(bias) != 1:
            raise Refused("The bias tensor is required to be 1D.")
        if bias[0] != weights[0]:
            raise Refused(
                "The shape of the bias tensor misaligns with the weight tensor. "
                f"Shape of bias weights = {bias[0]}, shape of kernel weights = {weights[0]}."
            )
    w = read_window(node, list(weights[2:]), excludes_padding=False)
    if tuple(w.kernel) != weights[2:]:
        raise Refused(
            "The size of spatial dimension and the size of kernel shape are not equal for the Conv operator. "
            f"kernel_shape = {w.kernel}, kernel dimensions = {list(weights[2:])}."
        )
    groups = node.integer("group", 1)
    if x.dims[1] != -1 and weights[1] * groups != x.dims[1]:
        raise Refused("Kernel weight dimension failed to broadcast to input.")
    out = dense.convolution(
        ctx.net, [x], weights[0], w.kernel, w.stride, w.pre, w.post, w.dilation, w.mode, groups, weights, has_bias
    )
    ctx.net.register(out, node.name)
    if one_dimensional:
        out = squeeze(ctx, out, [3])
    return [out]


def _conv_with_inputs(ctx: Context, node: Node, inputs: List[Any]) -> NetTensor:
    """A convolution whose kernel or bias is a network tensor."""
    x = ctx.tensor(inputs[0])
    one_dimensional = len(x.dims) == 3
    if one_dimensional:
        x = unsqueeze(ctx, x, [3])
    spatial = len(x.dims) - 2
    if spatial < 1:
        raise Refused("Convolution needs an input of rank 3 or more")
    # Without kernel_shape the parser compares with uninitialised numbers, which never fit.
    w = read_window(node, [1] * spatial, excludes_padding=False)
    given = node.ints("kernel_shape") if node.has("kernel_shape") else None
    dims = inputs[1].dims
    kernel: Optional[NetTensor] = None
    if isinstance(inputs[1], NetTensor):
        kernel = inputs[1]
        if one_dimensional:
            kernel = unsqueeze(ctx, kernel, [3])
        dims = kernel.dims
    elif one_dimensional:
        dims = (*dims, 1)
    if given is None or len(dims) != spatial + 2 or tuple(w.kernel) != tuple(dims[2:]):
        raise Refused("The input tensor shape misaligns with the input kernel shape.")
    bias: Optional[NetTensor] = None
    has_bias = False
    if len(inputs) == 3 and inputs[2] is not None:
        if isinstance(inputs[2], Weights):
            has_bias = True
        else:
            bias = inputs[2]
    groups = node.integer("group", 1)
    if x.dims[1] != -1 and dims[1] * groups != x.dims[1]:
        raise Refused("The attribute group and the kernel shape misalign with the channel size of the input tensor. ")
    out = dense.convolution(
        ctx.net, [x, kernel, bias], dims[0], w.kernel, w.stride, w.pre, w.post, w.dilation, w.mode, groups,
        dims if kernel is None else None, has_bias,
    )  # fmt: skip
    ctx.net.register(out, node.name)
    return squeeze(ctx, out, [3]) if one_dimensional else out


def conv_transpose(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    if len(inputs) < 2:
        raise Refused("deconvolution require at least 2 inputs.")
    x = ctx.tensor(inputs[0])
    if not 3 <= len(x.dims) <= 5:
        raise Refused(
            f"Deconvolution input must be at least 3D and at most 5D! The current input is rank {len(x.dims)}."
        )
    kernel: Optional[NetTensor] = inputs[1] if isinstance(inputs[1], NetTensor) else None
    bias: Optional[NetTensor] = inputs[2] if len(inputs) > 2 and isinstance(inputs[2], NetTensor) else None
    one_dimensional = len(x.dims) == 3
    if one_dimensional:
        x = unsqueeze(ctx, x, [3])
    weights: Tuple[int, ...] = inputs[1].dims
    if len(weights) == 3:
        if kernel is not None:
            kernel = unsqueeze(ctx, kernel, [3])
        weights = (*weights, 1)
    spatial = len(x.dims) - 2
    if spatial != len(weights) - 2:
        raise Refused(
            "The number of spatial dimensions and the kernel shape doesn't match up. "
            f"Number of spatial dimensions = {spatial}, number of kernel dimensions = {len(weights)}."
        )
    groups = node.integer("group", 1)
    out_channels = weights[1] * groups
    has_bias = len(inputs) > 2 and isinstance(inputs[2], Weights)
    if has_bias:
        if len(inputs[2].dims) != 1:
            raise Refused(f"The bias tensor is required to be 1D. Provided bias has rank {len(inputs[2].dims)}.")
        if inputs[2].dims[0] != out_channels:
            raise Refused(
                "The number of the bias weights does not align with the number of output maps. "
                f"Number of bias weights = {inputs[2].dims[0]}, number of output maps = {out_channels}."
            )
    w = read_window(node, list(weights[2:]), excludes_padding=False)
    if tuple(w.kernel) != tuple(weights[2:]):
        raise Refused(
            "Attribute kernel_shape misaligns with the dimensions of the weight tensor. "
            f"kernel_shape = {w.kernel}, kernel dimensions = {list(weights[2:])}."
        )
    left = _transposed_padding(node, w, x.dims)
    out = dense.deconvolution(
        ctx.net, [x, kernel, bias], out_channels, w.kernel, w.stride, w.pre, w.post, w.dilation, w.mode, groups,
        weights if kernel is None else None, has_bias and not left,
    )  # fmt: skip
    ctx.net.register(out, node.name)
    if left:
        out = _pad_output(ctx, out, w.output_padding, inputs[2] if has_bias else None)
    return [squeeze(ctx, out, [3]) if one_dimensional else out]


def _transposed_padding(node: Node, w: Window, dims: Tuple[int, ...]) -> bool:
    """Settle pre, post and output padding; True where output padding is left that a SLICE has to add."""
    auto = node.text("auto_pad", "NOTSET")
    if auto != "NOTSET":
        return False
    spatial = len(w.kernel)
    if node.has("output_shape"):
        wanted = node.ints("output_shape")
        offset = len(wanted) - spatial
        if offset < 0:
            raise Refused(f"output_shape {wanted} does not fit {spatial} spatial axes")
        for i in range(spatial):
            total = (
                w.stride[i] * (dims[2 + i] - 1)
                + w.output_padding[i]
                + (w.kernel[i] - 1) * w.dilation[i]
                + 1
                - wanted[offset + i]
            )
            # C++ division, towards zero.
            half = int(total / 2)
            w.pre[i], w.post[i] = half, total - half
            if w.pre[i] < 0:
                raise Refused("TensorRT does not support negative pre-padding in the ConvTranspose operator!")
            if w.post[i] < 0:
                w.output_padding[i] = -w.post[i]
                w.post[i] = 0
    left = False
    if any(w.output_padding):
        for i in range(spatial):
            if w.post[i] >= w.output_padding[i]:
                w.post[i] -= w.output_padding[i]
                w.output_padding[i] = 0
            else:
                w.output_padding[i] -= w.post[i]
                w.post[i] = 0
                left = True
    return left


def _pad_output(ctx: Context, x: NetTensor, padding: List[int], bias: Optional[Weights]) -> NetTensor:
    rank = len(x.dims)
    start, total = padding_tensors(ctx, rank, [0] * len(padding) + list(padding))
    size = arithmetic.elementwise(ctx.net, st.tensor_of(ctx, st.shape_of(x)), total, "SUM")
    out = shapes.slice_layer(ctx.net, x, start, size, [1] * rank, mode="FILL")
    if bias is not None:
        dims = (1, bias.count) + (1,) * (rank - 2)
        constant = ctx.net.constant(dims, bias.dtype, None, bias.name)
        out = arithmetic.elementwise(ctx.net, out, constant, "SUM")
    return out


def padding_tensors(ctx: Context, rank: int, pads: List[int]) -> Tuple[NetTensor, NetTensor]:
    """ONNX pads (all befores, all afters, of the last axes) as a slice's start and the total padding.

    Raises:
        Refused: negative or ill-formed padding.
    """
    missing = rank - len(pads) // 2
    if len(pads) % 2 or missing < 0:
        raise Refused("Failed to convert padding!")
    half = len(pads) // 2
    start, total = [0] * rank, [0] * rank
    for i in range(half):
        before, after = pads[i], pads[half + i]
        if before < 0 or after < 0:
            raise Refused("Failed to convert padding!")
        start[missing + i], total[missing + i] = -before, before + after
    return ctx.constant(start, ctx.index_type), ctx.constant(total, ctx.index_type)


def pool(ctx: Context, node: Node, inputs: List[Any], *, op: str) -> List[Any]:
    if op == "MAX" and (any(node.outputs[1:]) if ctx.v10 else len(node.outputs) != 1):
        raise Refused("TensorRT does not support the indices output of MaxPool.")
    check_dilations(ctx, node)
    x = ctx.tensor(inputs[0])
    one_dimensional = len(x.dims) == 3
    if one_dimensional:
        x = unsqueeze(ctx, x, [3])
    kernel = list(node.required("kernel_shape").ints)
    if not (len(kernel) in (2, 3) or (len(kernel) == 1 and one_dimensional)):
        raise Refused("The attribute kernel_shape misaligns with the shape of the input tensor.")
    ceil = ctx.opset >= 10 and node.integer("ceil_mode", 0) != 0
    w = read_window(node, kernel, excludes_padding=True, ceil=ceil)
    if one_dimensional:
        w.kernel, w.stride = w.kernel + [1], w.stride + [1]
        w.pre, w.post = w.pre + [0], w.post + [0]
    out = dense.pooling(ctx.net, x, op, w.kernel, w.stride, w.pre, w.post, w.mode, w.excludes_padding)
    ctx.net.register(out, node.name)
    return [squeeze(ctx, out, [3]) if one_dimensional else out]


def check_dilations(ctx: Context, node: Node) -> None:
    if ctx.opset >= 10 and any(d != 1 for d in node.ints("dilations")):
        raise Refused("This version of TensorRT does not support dilations other than 1.")


def global_pool(ctx: Context, node: Node, inputs: List[Any], *, op: str) -> List[Any]:
    return [global_reduce(ctx, node, ctx.tensor(inputs[0]), op)]


def global_reduce(ctx: Context, node: Node, x: NetTensor, op: str) -> NetTensor:
    out = dense.reduce(ctx.net, x, op, range(2, len(x.dims)), True)
    return ctx.name(out, node)


def global_lp_pool(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    """pow(sum(pow(x, p)), 1 / p)"""
    x = ctx.tensor(inputs[0])
    if x.dtype not in ("FLOAT", "HALF"):
        raise Refused(f"Only FLOAT and HALF are supported in GlobalLpPool. The current type = {x.dtype}.")
    p = float(node.integer("p", 2))
    ones = (1,) * len(x.dims)
    power = ctx.scalar(p, x.dtype, ones)
    inverse = ctx.scalar(1.0 / p if p else 0.0, x.dtype, ones)
    raised = arithmetic.elementwise(ctx.net, x, power, "POW")
    total = global_reduce(ctx, node, raised, "SUM")
    return [arithmetic.elementwise(ctx.net, total, inverse, "POW")]


def lp_pool(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    """Average pooling of |x| or x^2, times the window's size, with a root for p = 2."""
    p = node.integer("p", 2)
    if p not in (1, 2):
        raise Refused("Only L1 and L2 normalization are supported.")
    check_dilations(ctx, node)
    x = ctx.tensor(inputs[0])
    kernel = list(node.required("kernel_shape").ints)
    if x.dtype not in ("FLOAT", "HALF"):
        raise Refused(f"Only float inputs/outputs supported in LpPool. The current data type = {x.dtype}.")
    w = read_window(node, kernel, excludes_padding=False)
    elements = 1.0
    for k in w.kernel:
        elements *= k
    factor = ctx.scalar(elements, x.dtype, (1,) * len(x.dims))
    if p == 1:
        out = ctx.name(arithmetic.unary(ctx.net, x, "ABS"), node)
    else:
        out = ctx.name(arithmetic.elementwise(ctx.net, x, x, "PROD"), node)
    out = dense.pooling(ctx.net, out, "AVERAGE", w.kernel, w.stride, w.pre, w.post, w.mode, w.excludes_padding)
    ctx.net.register(out, node.name)
    out = ctx.name(arithmetic.elementwise(ctx.net, out, factor, "PROD"), node)
    if p == 2:
        out = ctx.name(arithmetic.unary(ctx.net, out, "SQRT"), node)
    return [out]
