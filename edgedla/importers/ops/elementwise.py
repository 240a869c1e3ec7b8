"""Binary, unary, comparison and logic operators, casts, Where, Mod, and what the parser builds from them."""

from __future__ import annotations

from typing import Dict, List, Sequence

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import constant_of_shape, same_rank, to_rank
from edgedla.importers.context import Context
from edgedla.importers.dtypes import dtype_of, rank_of, refuse_types, trt_type
from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node
from edgedla.importers.operand import Value, operand
from edgedla.importers.refuse import EVALUATION, Refused
from edgedla.importers.values import ONNX_TYPE_NAMES, Weights

LOGIC = frozenset({"AND", "OR", "XOR"})
NO_BOOL = frozenset({"DIV", "FLOOR_DIV", "GREATER", "LESS", "MAX", "MIN", "PROD", "SUB", "SUM"})


def check_types(ctx: Context, inputs: Sequence[Value], op: str) -> None:
    """The element types that TensorRT's elementwise layer takes."""
    types = [dtype_of(x) for x in inputs]
    if op in LOGIC:
        if any(t != "BOOL" for t in types):
            raise Refused(f"Elementwise layer only supports operator {op} and the given inputs with type BOOL.")
    elif op in NO_BOOL:
        if "BOOL" in types:
            raise Refused(f"Elementwise layer does not support operator {op} and the given inputs with type BOOL.")
    elif op == "POW" and any(t in ("BOOL", "INT32", "INT64") for t in types):
        raise Refused("Elementwise layer does not support operator POW with boolean or integer types.")


def combine(ctx: Context, node: Node, inputs: Sequence[Value], op: str) -> NetTensor:
    """Operands brought to one rank, then one ELEMENTWISE per further operand, all named after the node."""
    if not inputs:
        raise Refused("Inputs vector is empty.")
    rank = max(rank_of(x) for x in inputs)
    tensors = [to_rank(ctx, ctx.tensor(x), rank) for x in inputs]
    check_types(ctx, inputs, op)
    out = tensors[0]
    if len(tensors) == 1:
        return ctx.through_identity(out)
    for t in tensors[1:]:
        out = arithmetic.elementwise(ctx.net, out, t, op)
        ctx.net.register(out, node.name)
    return out


def binary(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
    return [combine(ctx, node, inputs, op)]


def mean(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    total = combine(ctx, node, inputs, "SUM")
    ones = (1,) * len(total.dims)
    dtype = total.dtype if total.dtype in ("HALF", "BF16") else "FLOAT"
    factor = ctx.scalar(1.0 / len(inputs), dtype, ones)
    return [arithmetic.elementwise(ctx.net, total, factor, "PROD")]


#: Types a unary operation refuses, where they differ from the usual ones.
UNARY_REFUSED: Dict[str, Sequence[str]] = {"ABS": ("BOOL", "UINT8"), "SIGN": ("BOOL", "UINT8"), "NEG": ("BOOL", "UINT8")}


def unary_layer(ctx: Context, node: Node, x: Value, op: str) -> NetTensor:
    t = ctx.tensor(x)
    if op == "NOT":
        valid = t.dtype == "BOOL"
    elif op == "NEG" and (t.dtype == "INT32" or (not ctx.v10 and t.dtype == "INT64")):
        # UNARY NEG knows no integers: 0 - x.
        zero = ctx.constant([0], t.dtype, ())
        zero, t = same_rank(ctx, zero, t)
        return combine(ctx, node, [zero, t], "SUB")
    elif op in ("ISINF", "ISNAN"):
        valid = t.dtype in ("FLOAT", "HALF", "BF16")
    elif not ctx.v10 and op == "ABS":
        valid = t.dtype not in ("BOOL", "UINT8")
    elif not ctx.v10 and op == "SIGN":
        valid = t.dtype not in ("BOOL", "INT32", "UINT8")
    else:
        valid = t.dtype not in UNARY_REFUSED.get(op, ("BOOL", "INT32", "INT64", "UINT8"))
    if not valid:
        raise Refused(
            f"This version of TensorRT does not support the given operator {op} with the given input data type {t.dtype}."
        )
    if t.dims or not ctx.parser.scalar_unary_reshapes:
        return ctx.name(arithmetic.unary(ctx.net, t, op), node)
    t = shapes.shuffle(ctx.net, t, reshape=(1,), zero_is_placeholder=False)
    out = ctx.name(arithmetic.unary(ctx.net, t, op), node)
    return shapes.shuffle(ctx.net, out, reshape=(), zero_is_placeholder=False)


def unary(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
    return [unary_layer(ctx, node, inputs[0], op)]


def or_equal_layer(ctx: Context, node: Node, a: NetTensor, b: NetTensor, op: str) -> NetTensor:
    """GREATER or LESS, EQUAL, and the OR of both."""
    first = combine(ctx, node, [a, b], op)
    second = combine(ctx, node, [a, b], "EQUAL")
    return combine(ctx, node, [first, second], "OR")


def or_equal(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
    a = ctx.tensor(inputs[0])
    b = ctx.tensor(inputs[1])
    return [or_equal_layer(ctx, node, a, b, op)]


def cast(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    number = node.required_int("to")
    dtype = trt_type(ctx, number)
    if dtype is None:
        raise Refused(f"Unsupported data type for the Cast operator! ({ONNX_TYPE_NAMES.get(number, number)})")
    x = ctx.tensor(inputs[0])
    if ctx.parser.cast_layer:
        return [ctx.name(arithmetic.cast(ctx.net, x, dtype), node)]
    # The IDENTITY layer converts UINT8 to and from floating point alone.
    for source, target in ((x.dtype, dtype), (dtype, x.dtype)):
        if source == "UINT8" and target not in ("FLOAT", "HALF"):
            raise Refused(f"Cast from {x.dtype} to {dtype}: UINT8 is only cast to and from FLOAT and HALF.")
    return [ctx.name(arithmetic.identity(ctx.net, x, dtype), node)]


def cast_like(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    t = ctx.tensor(inputs[0])
    dtype = ctx.tensor(inputs[1]).dtype
    return [ctx.name(arithmetic.cast(ctx.net, t, dtype), node)]


def identity(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if node.outputs and node.outputs[0] in ctx.shared_parameters and isinstance(inputs[0], Weights):
        return [inputs[0].renamed(node.outputs[0])]
    return [ctx.name(arithmetic.identity(ctx.net, ctx.tensor(inputs[0])), node)]


def dropout(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if ctx.opset >= 12 and len(inputs) == 3 and inputs[2] is not None:
        if not isinstance(inputs[2], Weights):
            raise Refused("This Version of TensorRT only supports the training_mode input as an initializer.")
        if any(inputs[2].integers()[:1]):
            raise Refused("TensorRT does not support the Dropout operator in training mode.", EVALUATION)
    if ctx.opset <= 6 and not node.integer("is_test", 1):
        raise Refused("TensorRT does not support the Droupout operator with training mode.", EVALUATION)
    if len(node.outputs) == 1:
        return [ctx.identity(inputs[0])]
    # 8.6 hands the input itself on.
    out = ctx.identity(inputs[0]) if ctx.v10 else inputs[0]
    x = ctx.tensor(inputs[0])
    # The mask is all ones from opset 12 on, all zeros before.
    mask = arithmetic.elementwise(ctx.net, x, x, "EQUAL" if ctx.opset >= 12 else "LESS")
    return [out, mask]


def where(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[1], "UINT8")
    refuse_types(inputs[2], "UINT8")
    condition, x, y = ctx.tensor(inputs[0]), ctx.tensor(inputs[1]), ctx.tensor(inputs[2])
    rank = max(len(condition.dims), len(x.dims), len(y.dims))
    x, y, condition = to_rank(ctx, x, rank), to_rank(ctx, y, rank), to_rank(ctx, condition, rank)
    return [ctx.name(arithmetic.select(ctx.net, condition, x, y), node)]


def is_inf(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    negative, positive = node.integer("detect_negative", 1), node.integer("detect_positive", 1)
    if negative and positive:
        return [unary_layer(ctx, node, inputs[0], "ISINF")]
    x = ctx.tensor(inputs[0])
    zero = ctx.scalar(0.0, "FLOAT", (1,) * len(x.dims))
    if negative or positive:
        side = arithmetic.elementwise(ctx.net, x, zero, "LESS" if negative else "GREATER")
        infinite = arithmetic.unary(ctx.net, x, "ISINF")
        return [arithmetic.elementwise(ctx.net, side, infinite, "AND")]
    above = arithmetic.elementwise(ctx.net, x, zero, "GREATER")
    below = arithmetic.elementwise(ctx.net, x, zero, "LESS")
    return [arithmetic.elementwise(ctx.net, above, below, "AND")]


def is_nan(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if ctx.v10:
        return [unary_layer(ctx, node, inputs[0], "ISNAN")]
    same = combine(ctx, node, [inputs[0], inputs[0]], "EQUAL")
    return [unary_layer(ctx, node, same, "NOT")]


def _integer_mod(ctx: Context, a: NetTensor, b: NetTensor, op: str) -> NetTensor:
    """a - b * (a op b)"""
    quotient = arithmetic.elementwise(ctx.net, a, b, op)
    product = arithmetic.elementwise(ctx.net, b, quotient, "PROD")
    return arithmetic.elementwise(ctx.net, a, product, "SUB")


def _rounded_mod(ctx: Context, a: NetTensor, b: NetTensor, quotient: NetTensor, rounding: str) -> NetTensor:
    product = arithmetic.elementwise(ctx.net, b, arithmetic.unary(ctx.net, quotient, rounding), "PROD")
    return arithmetic.elementwise(ctx.net, a, product, "SUB")


def zero_like(ctx: Context, x: NetTensor) -> NetTensor:
    """A tensor of zeros with the dims and type of `x`."""
    if not ctx.parser.zeros_by_product:
        zero = ctx.cast_helper(ctx.scalar(0.0, "FLOAT"), x.dtype)
        return constant_of_shape(ctx, zero, st.tensor_of(ctx, st.shape_of(x)))
    zero = ctx.cast_helper(ctx.constant([0.0], "FLOAT", ()), x.dtype)
    zero, _ = same_rank(ctx, zero, x)
    return ctx.helper_name(arithmetic.elementwise(ctx.net, x, zero, "PROD"), "ONNXTRT_createZeroTensor")


def mod(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    a, b = same_rank(ctx, ctx.tensor(inputs[0]), ctx.tensor(inputs[1]))
    integers = a.dtype in ("INT32", "INT64")
    if not node.integer("fmod", 0):
        if not integers:
            raise Refused(
                "The fmod attribute is set to 0. Inputs cannot be of floating point types. "
                f"The current input type is {a.dtype}."
            )
        return [ctx.name(_integer_mod(ctx, a, b, "FLOOR_DIV"), node)]
    if integers:
        return [ctx.name(_integer_mod(ctx, a, b, "DIV"), node)]
    quotient = combine(ctx, node, [a, b], "DIV")
    down = _rounded_mod(ctx, a, b, quotient, "FLOOR")
    up = _rounded_mod(ctx, a, b, quotient, "CEIL")
    condition = or_equal_layer(ctx, node, quotient, zero_like(ctx, quotient), "GREATER")
    return [ctx.name(arithmetic.select(ctx.net, condition, down, up), node)]


def size(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = inputs[0]
    dims = st.shape_of(x) if isinstance(x, NetTensor) else st.vector_of(operand(x).dims)
    return [st.tensor_of(ctx, st.product(ctx, dims, 0, dims.size, 0))]
