"""ConvTranspose: DECONVOLUTION, and a SLICE for output padding that DECONVOLUTION cannot express."""

from __future__ import annotations

from typing import List, Optional, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import squeeze, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.network import arithmetic, dense, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.dense import Window
from edgedla.importers.node import Node
from edgedla.importers.operand import Value, operand
from edgedla.importers.ops.pad import padding_tensors
from edgedla.importers.ops.windows import groups_of, read_window
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def conv_transpose(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if len(inputs) < 2:
        raise Refused("deconvolution require at least 2 inputs.")
    x = ctx.tensor(inputs[0])
    if not 3 <= len(x.dims) <= 5:
        raise Refused(f"Deconvolution input must be at least 3D and at most 5D! The current input is rank {len(x.dims)}.")
    kernel: Optional[NetTensor] = inputs[1] if isinstance(inputs[1], NetTensor) else None
    bias: Optional[NetTensor] = inputs[2] if len(inputs) > 2 and isinstance(inputs[2], NetTensor) else None
    one_dimensional = len(x.dims) == 3
    if one_dimensional:
        x = unsqueeze(ctx, x, [3])
    weights: Tuple[int, ...] = operand(inputs[1]).dims
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
    groups = groups_of(node)
    out_channels = weights[1] * groups
    bias_weights = inputs[2] if len(inputs) > 2 and isinstance(inputs[2], Weights) else None
    if bias_weights is not None:
        if len(bias_weights.dims) != 1:
            raise Refused(f"The bias tensor is required to be 1D. Provided bias has rank {len(bias_weights.dims)}.")
        if bias_weights.dims[0] != out_channels:
            raise Refused(
                "The number of the bias weights does not align with the number of output maps. "
                f"Number of bias weights = {bias_weights.dims[0]}, number of output maps = {out_channels}."
            )
    w = read_window(node, list(weights[2:]), excludes_padding=False)
    if tuple(w.kernel) != tuple(weights[2:]):
        raise Refused(
            "Attribute kernel_shape misaligns with the dimensions of the weight tensor. "
            f"kernel_shape = {w.kernel}, kernel dimensions = {list(weights[2:])}."
        )
    needs_slice = _transposed_padding(node, w, x.dims)
    has_bias = bias_weights is not None and not needs_slice
    dims = weights if kernel is None else None
    out = dense.convolution(ctx.net, [x, kernel, bias], out_channels, w, groups, dims, has_bias, transposed=True)
    ctx.net.register(out, node.name)
    if needs_slice:
        out = _pad_output(ctx, out, w.output_padding, bias_weights)
    return [squeeze(ctx, out, [3]) if one_dimensional else out]


def _transposed_padding(node: Node, w: Window, dims: Tuple[int, ...]) -> bool:
    """Computes pre, post and output padding; True where a SLICE has to add the rest of the output padding."""
    auto = node.text("auto_pad", "NOTSET")
    if auto != "NOTSET":
        return False
    spatial = len(w.kernel)
    if node.has("output_shape"):
        output_shape = node.ints("output_shape")
        offset = len(output_shape) - spatial
        if offset < 0:
            raise Refused(f"output_shape {output_shape} does not fit {spatial} spatial axes")
        for i in range(spatial):
            total = (
                w.stride[i] * (dims[2 + i] - 1)
                + w.output_padding[i]
                + (w.kernel[i] - 1) * w.dilation[i]
                + 1
                - output_shape[offset + i]
            )
            # C++ division, towards zero.
            half = int(total / 2)
            w.pre[i], w.post[i] = half, total - half
            if w.pre[i] < 0:
                raise Refused("TensorRT does not support negative pre-padding in the ConvTranspose operator!")
            if w.post[i] < 0:
                w.output_padding[i] = -w.post[i]
                w.post[i] = 0
    needs_slice = False
    if any(w.output_padding):
        for i in range(spatial):
            if w.post[i] >= w.output_padding[i]:
                w.post[i] -= w.output_padding[i]
                w.output_padding[i] = 0
            else:
                w.output_padding[i] -= w.post[i]
                w.post[i] = 0
                needs_slice = True
    return needs_slice


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
