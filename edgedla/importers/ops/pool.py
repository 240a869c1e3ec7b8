"""Pooling: windows as POOLING, global pooling as REDUCE, LpPool from both."""

from __future__ import annotations

import math
from typing import List, Sequence

from edgedla.importers.broadcast import squeeze, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.network import arithmetic, dense
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.dense import Window
from edgedla.importers.node import Node
from edgedla.importers.operand import Value
from edgedla.importers.ops.windows import read_window
from edgedla.importers.refuse import Refused


def pool(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
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
    out = dense.pooling(ctx.net, x, op, w)
    if ceil and _starts_in_padding(w, x.dims[2:], out.dims[2:]):
        ctx.departs(node, "keeps a last window that starts in the padding, which ONNX leaves out; pad less at the end")
    ctx.net.register(out, node.name)
    return [squeeze(ctx, out, [3]) if one_dimensional else out]


def _starts_in_padding(w: Window, sizes: Sequence[int], windows: Sequence[int]) -> bool:
    """Whether the last of `windows` along an axis begins after the end of the data."""
    starts = ((count - 1) * stride for count, stride in zip(windows, w.stride))
    return any(start >= size + pre >= 0 for start, size, pre in zip(starts, sizes, w.pre))


def check_dilations(ctx: Context, node: Node) -> None:
    if ctx.opset >= 10 and any(d != 1 for d in node.ints("dilations")):
        raise Refused("This version of TensorRT does not support dilations other than 1.")


def global_pool(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
    return [global_reduce(ctx, node, ctx.tensor(inputs[0]), op)]


def global_reduce(ctx: Context, node: Node, x: NetTensor, op: str) -> NetTensor:
    out = dense.reduce(ctx.net, x, op, range(2, len(x.dims)), True)
    return ctx.name(out, node)


def global_lp_pool(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
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


def lp_pool(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """Average pooling of |x| or x^2, times the window's size, with a root for p = 2."""
    p = node.integer("p", 2)
    if p not in (1, 2):
        raise Refused("Only L1 and L2 normalization are supported.")
    check_dilations(ctx, node)
    x = ctx.tensor(inputs[0])
    kernel = list(node.required("kernel_shape").ints)
    if x.dtype not in ("FLOAT", "HALF"):
        raise Refused(f"Only float inputs/outputs supported in LpPool. The current data type = {x.dtype}.")
    ceil = node.integer("ceil_mode", 0) != 0
    if ceil and not ctx.v10:
        ceil = False
        ctx.departs(node, "ignores ceil_mode and rounds down")
    w = read_window(node, kernel, excludes_padding=False, ceil=ceil)
    factor = ctx.scalar(float(math.prod(w.kernel)), x.dtype, (1,) * len(x.dims))
    if p == 1:
        out = ctx.name(arithmetic.unary(ctx.net, x, "ABS"), node)
    else:
        out = ctx.name(arithmetic.elementwise(ctx.net, x, x, "PROD"), node)
    out = dense.pooling(ctx.net, out, "AVERAGE", w)
    ctx.net.register(out, node.name)
    out = ctx.name(arithmetic.elementwise(ctx.net, out, factor, "PROD"), node)
    if p == 2:
        out = ctx.name(arithmetic.unary(ctx.net, out, "SQRT"), node)
    return [out]
