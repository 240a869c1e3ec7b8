"""Activation operators, and those that the parser writes as several layers (HardSwish, Celu, Shrink, Mish, ...)."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from edgedla.importers.broadcast import axis_length, flatten, same_rank, squeeze, to_rank
from edgedla.importers.context import Context
from edgedla.importers.dtypes import dtype_of, rank_of, refuse_types
from edgedla.importers.network import arithmetic, selection, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node, positive_axis
from edgedla.importers.operand import Value, weights_in
from edgedla.importers.ops.elementwise import check_types, combine
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights

FLOAT_MAX = 3.4028234663852886e38
HALF_MAX = 65504.0
#: Lowest and highest value of the element types that Clip works on.
TYPE_RANGE: Dict[str, Tuple[float, float]] = {
    "FLOAT": (-FLOAT_MAX, FLOAT_MAX),
    "HALF": (-HALF_MAX, HALF_MAX),
    "BF16": (-FLOAT_MAX, FLOAT_MAX),
    "INT32": (-(1 << 31), (1 << 31) - 1),
    "INT64": (-(1 << 63), (1 << 63) - 1),
}
#: Attributes that become alpha and beta, with their defaults in the parser.
ATTRIBUTES: Dict[str, Tuple[Optional[Tuple[str, float]], Optional[Tuple[str, float]]]] = {
    "ELU": (("alpha", 1.0), None),
    "HARD_SIGMOID": (("alpha", 0.2), ("beta", 0.5)),
    "LEAKY_RELU": (("alpha", 0.01), None),
    "SELU": (("alpha", 1.6732), ("gamma", 1.0507)),
    "THRESHOLDED_RELU": (("alpha", 1.0), None),
    "SCALED_TANH": (("alpha", 0.0), ("beta", 0.0)),
}


def layer(ctx: Context, node: Node, x: Value, op: str, alpha: Optional[float] = None, beta: Optional[float] = None) -> NetTensor:
    refuse_types(x, "INT32", "BOOL", "UINT8")
    if not ctx.v10:
        refuse_types(x, "INT64")
    return ctx.name(arithmetic.activation(ctx.net, ctx.tensor(x), op, alpha, beta), node)


def activation(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
    first, second = ATTRIBUTES.get(op, (None, None))
    alpha = node.number(*first) if first else None
    beta = node.number(*second) if second else None
    return [layer(ctx, node, inputs[0], op, alpha, beta)]


def parametric_softplus(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    return [layer(ctx, node, inputs[0], "SOFTPLUS", node.required("alpha").f, node.required("beta").f)]


def gelu(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    form = node.text("approximate", "none")
    if form not in ("none", "tanh"):
        raise Refused(f"Attribute approximate of Gelu must be none or tanh, not {form!r}")
    return [layer(ctx, node, inputs[0], "GELU_TANH" if form == "tanh" else "GELU_ERF")]


def _bound(x: Value) -> Optional[float]:
    """A constant bound's value; None where nobody set it.

    Raises:
        CannotTell: its data is missing.
    """
    if x is None:
        return None
    array = weights_in(x).known()
    if array.size != 1:
        raise Refused("Expected weights to contain only a single value")
    return float(array.ravel()[0])


def clip(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    dtype = dtype_of(inputs[0])
    by_elements = dtype in ("INT32", "INT64")
    # An explicit '' input is a null tensor, which the parser takes for a tensor.
    if any(not isinstance(x, Weights) for x in inputs[1:]):
        by_elements = True
        if len(inputs) == 2 and inputs[1] is None:
            raise Refused("Trying to access weights or a null tensor! (its last input is '')")
    if by_elements:
        return [_clip_by_elements(ctx, node, inputs, dtype)]
    alpha: Optional[float] = None
    beta: Optional[float] = None
    if ctx.opset >= 11:
        alpha = _bound(inputs[1]) if len(inputs) > 1 else None
        beta = _bound(inputs[2]) if len(inputs) > 2 else None
    else:
        alpha, beta = node.number("min", -FLOAT_MAX), node.number("max", FLOAT_MAX)
    return [layer(ctx, node, inputs[0], "CLIP", -FLOAT_MAX if alpha is None else alpha, FLOAT_MAX if beta is None else beta)]


def _clip_by_elements(ctx: Context, node: Node, inputs: List[Value], dtype: str) -> NetTensor:
    x = ctx.tensor(inputs[0])
    if dtype not in TYPE_RANGE or (not ctx.v10 and dtype == "BF16"):
        raise Refused(
            "This version of TensorRT only supports floating-point, INT32, or INT64 inputs for Clip! "
            f"The current input type is {dtype}."
        )
    lowest, highest = TYPE_RANGE[dtype]
    if not ctx.v10:
        dtype = "INT32" if dtype == "INT32" else "FLOAT"
        if ctx.opset < 11:
            lowest, highest = node.number("min", lowest), node.number("max", highest)
    bounds = []
    for given, default in zip((inputs + [None, None])[1:3], (lowest, highest)):
        bounds.append(ctx.scalar(default, dtype) if given is None else ctx.tensor(given))
    low, high = bounds
    x, low = same_rank(ctx, x, low)
    x, high = same_rank(ctx, x, high)
    return arithmetic.elementwise(ctx.net, arithmetic.elementwise(ctx.net, x, low, "MAX"), high, "MIN")


def prelu(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if len(inputs) != 2:
        raise Refused(f"The PRelu operator requires exactly 2 inputs. Current input size = {len(inputs)}.")
    refuse_types(inputs[0], "INT32", "INT64")
    refuse_types(inputs[1], "INT32", "INT64")
    x, slopes = same_rank(ctx, ctx.tensor(inputs[0]), ctx.tensor(inputs[1]))
    return [ctx.name(arithmetic.parametric_relu(ctx.net, x, slopes), node)]


def hard_swish(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    if x.dtype not in ("FLOAT", "HALF", "INT8"):
        raise Refused(
            "Only FLOAT, HALF or INT8 input is supported for the HardSwish operator in this version of TensorRT. "
            f"The current type = {x.dtype}."
        )
    sigmoid = layer(ctx, node, inputs[0], "HARD_SIGMOID", 1.0 / 6, 0.5)
    return [combine(ctx, node, [x, sigmoid], "PROD")]


def mish(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    if x.dtype not in ("FLOAT", "HALF"):
        raise Refused(
            "Only FLOAT32 or FLOAT16 input is supported for the Mish operator in this version of TensorRT. "
            f"The current type = {x.dtype}."
        )
    softplus = layer(ctx, node, inputs[0], "SOFTPLUS")
    tanh = layer(ctx, node, softplus, "TANH")
    return [combine(ctx, node, [x, tanh], "PROD")]


def celu(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"""
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    if not rank and not ctx.parser.celu_of_scalar:
        raise Refused("The number of dimensions should remain the same adding inputs.")
    parts = []
    for value in (0.0, 1.0, node.number("alpha", 1.0)):
        parts.append(to_rank(ctx, ctx.scalar(value, "FLOAT"), rank))
    zero, one, alpha = parts

    def step(a: NetTensor, b: NetTensor, op: str) -> NetTensor:
        check_types(ctx, [a, b], op)
        return ctx.name(arithmetic.elementwise(ctx.net, a, b, op), node)

    power = ctx.name(arithmetic.unary(ctx.net, step(x, alpha, "DIV"), "EXP"), node)
    positive = step(x, zero, "MAX")
    negative = step(zero, step(alpha, step(power, one, "SUB"), "PROD"), "MIN")
    return [step(positive, negative, "SUM")]


def shrink(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    original = x.dtype
    if original not in ("FLOAT", "HALF", "INT8", "INT32", "INT64"):
        raise Refused(f"Only FLOAT, HALF, INT8, INT32, and INT64 are supported in Shrink. The current type = {original}.")
    x = ctx.cast_helper(x, "FLOAT")
    limit, bias = node.number("lambd", 0.5), node.number("bias", 0.0)
    constants = [same_rank(ctx, ctx.constant([v], "FLOAT", ()), x)[0] for v in (limit, -limit, bias, 0.0)]
    above_limit, below_limit, shift, zero = constants
    above = combine(ctx, node, [x, above_limit], "GREATER")
    lowered = combine(ctx, node, [x, shift], "SUB")
    out = arithmetic.select(ctx.net, above, lowered, zero)
    below = combine(ctx, node, [x, below_limit], "LESS")
    raised = combine(ctx, node, [x, shift], "SUM")
    out = ctx.name(arithmetic.select(ctx.net, below, raised, out), node)
    return [ctx.cast_helper(out, original)]


def hardmax(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """ONE_HOT of the index of the largest element."""
    refuse_types(inputs[0], "INT64", "INT32", "INT8", "UINT8", "BOOL")
    x = ctx.tensor(inputs[0])
    dims = x.dims
    axis = positive_axis(node.integer("axis", 1 if ctx.opset < 13 else -1), rank_of(inputs[0]))
    if ctx.opset < 13:
        x = flatten(ctx, x, axis, node)
        axis = 1
    best = selection.top_k(ctx.net, x, "MAX", 1, axis)
    index = squeeze(ctx, best[1], [axis])
    zero_one = ctx.constant([0, 1], "INT32")
    depth = axis_length(ctx, x, axis)
    out = selection.one_hot(ctx.net, index, zero_one, depth, axis)
    if ctx.opset < 13 and out.dims != dims:
        out = shapes.shuffle(ctx.net, out, reshape=dims, zero_is_placeholder=False)
        if ctx.v10:
            ctx.net.register(out, "ONNXTRT_reshapeTensor")
    return [ctx.cast_helper(out, x.dtype)]
