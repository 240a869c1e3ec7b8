"""Window attributes of Conv, ConvTranspose and pooling; Conv itself, and 1-D inputs, which the parser reshapes to 2-D and back."""

from __future__ import annotations

from typing import List, Optional, Tuple

from edgedla.importers.broadcast import squeeze, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.network import dense
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.dense import Window
from edgedla.importers.node import Node
from edgedla.importers.operand import Value, operand
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def groups_of(node: Node) -> int:
    """Groups of a convolution or transposed convolution."""
    groups = node.integer("group", 1)
    if groups < 1:
        raise Refused(f"{node.op} of {groups} groups: there must be one at least.")
    return groups


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


def conv(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    # An explicit '' for the bias is a null tensor, which the parser takes for a tensor.
    tensor_bias = len(inputs) > 2 and not isinstance(inputs[2], Weights)
    if tensor_bias:
        if not ctx.parser.tensor_bias:
            raise Refused("The bias tensor is required to be an initializer for the Conv operator.")
        if ctx.v10 and inputs[2] is None:
            raise Refused("Trying to access weights or a null tensor! (its third input is '')")
    if isinstance(inputs[1], NetTensor) or tensor_bias:
        return [_conv_with_inputs(ctx, node, inputs)]
    x = ctx.tensor(inputs[0])
    one_dimensional = len(x.dims) == 3
    if one_dimensional:
        x = unsqueeze(ctx, x, [3])
    weights: Tuple[int, ...] = operand(inputs[1]).dims
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
        bias = operand(inputs[2]).dims or (1,)
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
    groups = groups_of(node)
    if x.dims[1] != -1 and weights[1] * groups != x.dims[1]:
        raise Refused("Kernel weight dimension failed to broadcast to input.")
    out = dense.convolution(ctx.net, [x], weights[0], w, groups, weights, has_bias)
    ctx.net.register(out, node.name)
    if one_dimensional:
        out = squeeze(ctx, out, [3])
    return [out]


def _conv_with_inputs(ctx: Context, node: Node, inputs: List[Value]) -> NetTensor:
    """A convolution whose kernel or bias is a network tensor."""
    x = ctx.tensor(inputs[0])
    one_dimensional = len(x.dims) == 3
    if one_dimensional:
        x = unsqueeze(ctx, x, [3])
    spatial = len(x.dims) - 2
    if spatial < 1:
        raise Refused("Convolution needs an input of rank 3 or more")
    dims = operand(inputs[1]).dims
    kernel: Optional[NetTensor] = None
    if isinstance(inputs[1], NetTensor):
        kernel = inputs[1]
        if one_dimensional:
            kernel = unsqueeze(ctx, kernel, [3])
        dims = kernel.dims
    elif one_dimensional:
        dims = (*dims, 1)
    # Up to 10.3 the parser compares with uninitialised numbers where there is no kernel_shape, which never fit.
    has_kernel_shape = node.has("kernel_shape") or ctx.parser.kernel_shape_from_tensor
    kernel_dims = list(dims[2:]) if ctx.parser.kernel_shape_from_tensor else [1] * spatial
    w = read_window(node, kernel_dims, excludes_padding=False)
    if not has_kernel_shape or len(dims) != spatial + 2 or tuple(w.kernel) != tuple(dims[2:]):
        raise Refused("The input tensor shape misaligns with the input kernel shape.")
    bias: Optional[NetTensor] = None
    has_bias = False
    if len(inputs) == 3 and inputs[2] is not None:
        if isinstance(inputs[2], Weights):
            has_bias = True
        else:
            bias = inputs[2]
    groups = groups_of(node)
    if x.dims[1] != -1 and dims[1] * groups != x.dims[1]:
        raise Refused("The attribute group and the kernel shape misalign with the channel size of the input tensor. ")
    out = dense.convolution(ctx.net, [x, kernel, bias], dims[0], w, groups, dims if kernel is None else None, has_bias)
    ctx.net.register(out, node.name)
    return squeeze(ctx, out, [3]) if one_dimensional else out
