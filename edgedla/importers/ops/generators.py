"""Operators that make tensors: Constant, ConstantOfShape, Range, EyeLike, Trilu, random values, window functions."""

from __future__ import annotations

from typing import Any, List, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import constant_of_shape as filled
from edgedla.importers.broadcast import unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.dtypes import dtype_of, refuse_types, trt_type
from edgedla.importers.network import arithmetic, evaluate, known, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.limits import MAX_FOLDED_ELEMENTS
from edgedla.importers.node import Node
from edgedla.importers.operand import Value
from edgedla.importers.ops.elementwise import combine, or_equal_layer, zero_like
from edgedla.importers.refuse import Refused
from edgedla.importers.values import ONNX_TYPE_NAMES, ONNX_TYPES, Weights


def constant(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """Makes no layer: the nodes that read it get weights."""
    if len(node.attributes) == 1 and "value" in node.attributes:
        return [ctx.weights_of(node.attributes["value"].t)]
    for key in ("sparse_value", "value_string", "value_strings"):
        if node.has(key):
            raise Refused(
                "This version of TensorRT does not support the sparse_value, value_string and value_strings attributes."
            )
    if ctx.opset >= 12:
        for key, dtype in (("value_float", "FLOAT"), ("value_int", "INT64")):
            if dtype == "INT64" and not ctx.parser.integer_constants and (node.has(key) or node.has(key + "s")):
                return [_misread(ctx, node)]
            if node.has(key):
                single = node.number(key, 0.0) if dtype == "FLOAT" else node.integer(key, 0)
                return [_made(dtype, [single], ())]
            if node.has(key + "s"):
                values: Any = node.floats(key + "s") if dtype == "FLOAT" else node.ints(key + "s")
                return [_made(dtype, values, (len(values),))]
    return [ctx.weights_of(node.required("value").t)]


def _misread(ctx: Context, node: Node) -> Weights:
    """Reads value_int as 0 and value_ints as empty, as the parser does: it looks for floats in them."""
    if node.has("value_int"):
        if node.integer("value_int", 0):
            ctx.departs(node, "reads value_int as 0; export the constant as a tensor (attribute value)")
        return _made("INT32", [0], ())
    if node.ints("value_ints"):
        ctx.departs(node, "reads value_ints as an empty tensor; export the constant as a tensor (attribute value)")
    return _made("INT32", [], (0,))


def _made(dtype: str, values: List[Any], dims: Tuple[int, ...]) -> Weights:
    return Weights("", dims, dtype, ONNX_TYPES[dtype], value=known.of_numbers(values, dtype, dims))


def constant_of_shape(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    shape = ctx.tensor(inputs[0])
    # A zero value is made twice, whether it is needed or not.
    ctx.take_temporary_name()
    ctx.take_temporary_name()
    if node.has("value"):
        weights = ctx.weights_of(node.required("value").t)
        refuse_types(weights, "UINT8")
        weights.name = ""
        value = ctx.tensor(weights)
    else:
        value = arithmetic.constant(ctx.net, [0.0], "FLOAT")
    return [filled(ctx, value, shape)]


def range_op(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """FILL of max(0 - floor((start - limit) / delta), 0) elements."""
    dtype = dtype_of(inputs[0])
    if dtype not in ("INT32", "INT64", "FLOAT"):
        raise Refused("This version of TensorRT only supports int32, int64, and float input types for Range!")
    if any(dtype_of(x) != dtype for x in inputs[1:3]):
        raise Refused(
            "For range operator types for start, limit, and delta must be identical. "
            f"Types = {', '.join(dtype_of(x) for x in inputs[:3])}."
        )
    zero = st.scalar(0)
    if dtype == "FLOAT":
        start, limit, delta = (st.from_input(ctx, x) for x in inputs[:3])
    elif ctx.v10:
        start, limit, delta = (st.from_tensor(t) for t in [ctx.cast_helper(ctx.tensor(x), "INT64") for x in inputs[:3]])
    else:
        start, limit, delta = (st.from_input(ctx, x) for x in inputs[:3])
    if ctx.v10:
        start, limit, delta = (st.convert_to_0d(ctx, x) for x in (start, limit, delta))
    quotient = st.floor_div(ctx, st.sub(ctx, start, limit), delta)
    if ctx.v10:
        if dtype != "INT64":
            quotient = st.from_tensor(ctx.cast_helper(st.tensor_of(ctx, quotient), "INT64"))
    elif dtype == "FLOAT":
        quotient = st.from_tensor(ctx.cast_helper(st.tensor_of(ctx, quotient), "INT32"))
    count = st.maximum(ctx, st.sub(ctx, zero, quotient), zero)
    size = st.convert_to_1d(ctx, count)
    out_type = {"INT32": "INT32", "INT64": "INT64"}.get(dtype, "FLOAT")
    number = ctx.net.number_of_layers
    if size.known:
        sizes: Any = size.numbers()
    else:
        sizes = st.tensor_of(ctx, size)
        number = ctx.net.number_of_layers
    ctx.net.number_of_layers += 1
    alpha: Any
    beta: Any
    type_set = not ctx.v10
    if start.known and delta.known:
        alpha, beta = start.numbers()[0], delta.numbers()[0]
    elif ctx.v10 and dtype == "INT32" and isinstance(inputs[0], Weights) and isinstance(inputs[2], Weights):
        alpha, beta = inputs[0].integers()[0], inputs[2].integers()[0]
    else:
        alpha = st.tensor_of(ctx, start)
        beta = st.tensor_of(ctx, st.convert_to_1d(ctx, delta))
    out = shapes.fill(ctx.net, sizes, "LINSPACE", out_type, alpha=alpha, beta=beta, type_set=type_set)
    ctx.net.renumber([out], number)
    ctx.helper_name(out, "ONNXTRT_ShapeFill")
    return [ctx.name(out, node)]


def eye_like(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    if len(x.dims) != 2:
        raise Refused("Only 2D tensors are supported. Input must be of rank 2.")
    dtype = x.dtype
    if node.has("dtype"):
        given_dtype = trt_type(ctx, node.integer("dtype", 1))
        if given_dtype is None:
            raise Refused("Unsupported cast!")
        dtype = given_dtype
    if any(d < 0 for d in x.dims):
        raise Refused("Eyelike does not work for dynamically shaped tensors.")
    value = None
    if x.dims[0] * x.dims[1] <= MAX_FOLDED_ELEMENTS:
        value = evaluate.eye(x.dims[0], x.dims[1], node.integer("k", 0))
    out = ctx.net.constant(x.dims, "INT32", value)
    ctx.net.register(out, node.name)
    return [ctx.cast_helper(out, dtype) if dtype != "INT32" else out]


def _iota(ctx: Context, dims: st.ShapeTensor, axis: int) -> NetTensor:
    """A FILL that counts along one axis."""
    steps = [0] * dims.size
    steps[axis] = 1
    number = ctx.net.number_of_layers
    ctx.net.number_of_layers += 1
    start = ctx.scalar(0, "INT32")
    delta = ctx.constant(steps, "INT32")
    size = st.tensor_of(ctx, dims.copy())
    out = shapes.fill(ctx.net, size, "LINSPACE", "INT32", alpha=start, beta=delta, type_set=not ctx.v10)
    ctx.net.renumber([out], number)
    if not ctx.v10:
        return out
    ctx.net.register(out, "ONNXTRT_iota")
    return ctx.cast_helper(out, "INT64")


def trilu(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """select(row >= column - k, x, 0), or <= for the upper triangle."""
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    if rank < 2:
        raise Refused(f"Trilu input must have at least 2 dimensions! Current number of dimensions = {rank}.")
    if rank > 3 and not ctx.parser.trilu_any_rank:
        raise Refused("Trilu input must have 2 or 3 input dimensions!")
    height = st.gather(ctx, st.shape_of(x), st.vector(rank - 2))
    plane = st.concat(ctx, height, st.gather(ctx, st.shape_of(x), st.vector(rank - 1)))
    rows, columns = _iota(ctx, plane, 0), _iota(ctx, plane, 1)
    zero = zero_like(ctx, x)
    if len(inputs) == 2 and inputs[1] is not None:
        columns = combine(ctx, node, [columns, ctx.tensor(inputs[1])], "SUB")
    if rank > 2:
        batch = list(range(rank - 2))
        rows, columns = unsqueeze(ctx, rows, batch), unsqueeze(ctx, columns, batch)
    condition = or_equal_layer(ctx, node, rows, columns, "LESS" if node.integer("upper", 0) else "GREATER")
    return [arithmetic.select(ctx.net, condition, x, zero)]


def random(ctx: Context, node: Node, inputs: List[Value], *, op: str) -> List[Value]:
    """RandomUniform and RandomNormal; the -Like forms take their dims from an input."""
    like = node.op.endswith("Like")
    dims: List[int]
    dtype = "FLOAT"
    size: Any
    if like:
        if len(inputs) != 1:
            raise Refused(f"The {node.op} operator requires exactly 1 input. Current input size = {len(inputs)}.")
        if not isinstance(inputs[0], NetTensor):
            raise Refused("The input tensor cannot be an initializer.")
        shape = st.shape_of(inputs[0])
        dtype = inputs[0].dtype
        size = shape.numbers() if shape.known else st.tensor_of(ctx, shape)
    else:
        dims = list(node.required("shape").ints)
        if len(dims) > shapes.MAX_DIMS or any(d < 0 for d in dims):
            raise Refused(f"the shape {dims} of {node.op} is not usable")
        size = dims
    if node.has("dtype"):
        onnx_type = node.integer("dtype", 1)
        dtype = {ONNX_TYPES["FLOAT"]: "FLOAT", ONNX_TYPES["FLOAT16"]: "HALF"}.get(onnx_type, "")
        if not dtype:
            raise Refused(f"Unsupported data type {ONNX_TYPE_NAMES.get(onnx_type, onnx_type)} in {node.op}")
    uniform = op == "RANDOM_UNIFORM"
    alpha = node.number("low" if uniform else "mean", 0.0)
    beta = node.number("high" if uniform else "scale", 1.0)
    return [ctx.name(shapes.fill(ctx.net, size, op, dtype, alpha=alpha, beta=beta), node)]
