"""BatchNormalization, the NORMALIZATION family, LRN, Lp and mean-variance normalisation, ImageScaler."""

from __future__ import annotations

from typing import List

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import same_rank, to_rank, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.dtypes import dtype_of, rank_of, trt_type
from edgedla.importers.network import arithmetic, dense
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node, positive_axis
from edgedla.importers.operand import Value
from edgedla.importers.refuse import EVALUATION, Refused
from edgedla.importers.values import Weights


def batch_normalization(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if node.integer("training_mode", 0):
        raise Refused(
            "This version of TensorRT does not support training_mode == 1 in BatchNormalization.",
            f"{EVALUATION}; of one that standardises constant weights `edgedla fix` makes constants",
        )
    if ctx.v10 and any(node.outputs[1:]):
        raise Refused("This version of TensorRT doesn't support more than 1 outputs for BatchNormalization nodes!")
    names = ("scale", "bias", "mean", "var")
    for i in range(1, 5):
        # 8.6 looks at the scale's rank four times.
        if rank_of(inputs[i if ctx.v10 else 1]) != 1:
            raise Refused(f"The shape of the {names[i - 1]} input must be (C, )")
    parameters = [p for p in inputs[1:5] if isinstance(p, Weights)]
    if len(parameters) != 4:
        return [_by_elements(ctx, node, inputs)]
    types = {p.dtype for p in parameters}
    if not ctx.parser.half_batch_norm_scale and types != {"FLOAT"}:
        return [_by_elements(ctx, node, inputs)]
    if ctx.v10 and types == {dtype_of(inputs[0])} and not types <= {"FLOAT", "HALF", "BF16"}:
        raise Refused("Invalid data type provided for BatchNormalization")
    if ctx.v10:
        ctx.take_temporary_name()
    if len({p.count for p in parameters}) != 1:
        raise Refused("Inputs to BatchNormalization must have the same shape!")
    return [_scale(ctx, node, ctx.tensor(inputs[0]))]


def _scale(ctx: Context, node: Node, x: NetTensor) -> NetTensor:
    """One SCALE on axis 1; inputs that are not 4-D or 5-D go through reshapes."""
    rank = len(x.dims)
    original = st.shape_of(x)
    if rank < 4:
        x = unsqueeze(ctx, x, range(rank, 4))
    elif rank > 5:
        collapsed = st.product(ctx, original, 3, rank, 1)
        x = st.reshape(ctx, x, st.concat(ctx, st.gather(ctx, original, st.iota(3)), collapsed))
    out = dense.scale(ctx.net, x)
    ctx.net.register(out, node.name)
    if rank < 4 or rank > 5:
        out = st.reshape(ctx, out, original)
    return out


def _by_elements(ctx: Context, node: Node, inputs: List[Value]) -> NetTensor:
    """scale * (x - mean) / sqrt(variance + epsilon) + bias"""
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    parameters = [ctx.tensor(p) for p in inputs[1:5]]
    if rank > 1:
        axes = [0, *range(2, rank)]
        parameters = [unsqueeze(ctx, p, axes) for p in parameters]
    scale, bias, mean, variance = parameters
    dtype = variance.dtype if ctx.v10 and variance.dtype in ("HALF", "BF16") else "FLOAT"
    epsilon = ctx.scalar(node.number("epsilon", 1e-5), dtype, (1,) * rank)
    net = ctx.net
    divisor = arithmetic.unary(net, arithmetic.elementwise(net, variance, epsilon, "SUM"), "SQRT")
    dividend = arithmetic.elementwise(net, x, mean, "SUB")
    quotient = arithmetic.elementwise(net, dividend, divisor, "DIV")
    product = arithmetic.elementwise(net, scale, quotient, "PROD")
    return ctx.name(arithmetic.elementwise(net, product, bias, "SUM"), node)


def group_normalization(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """NORMALIZATION over the spatial axes, in groups of channels."""
    if node.op == "GroupNormalization" and ctx.opset >= 21 and ctx.parser.group_norm_21:
        return [_group_normalization_21(ctx, node, inputs)]
    x, scale, bias = ctx.tensor(inputs[0]), ctx.tensor(inputs[1]), ctx.tensor(inputs[2])
    rank = len(x.dims)
    if rank < 3:
        raise Refused(f"Input to normalization should be at least 3D, the actual number of dimensions is {rank}.")
    axes = [0, *range(2, rank)]
    scale, bias = unsqueeze(ctx, scale, axes), unsqueeze(ctx, bias, axes)
    out = dense.normalization(
        ctx.net, x, scale, bias, range(2, rank), node.number("epsilon", 1e-5), node.integer("num_groups", 1)
    )
    return [ctx.name(out, node)]


def _group_normalization_21(ctx: Context, node: Node, inputs: List[Value]) -> NetTensor:
    """A NORMALIZATION without parameters over the groups, then one scale and bias per channel."""
    x, scale, bias = ctx.tensor(inputs[0]), ctx.tensor(inputs[1]), ctx.tensor(inputs[2])
    rank, groups = len(x.dims), node.required_int("num_groups")
    if rank < 3 or groups < 1:
        raise Refused(f"GroupNormalization of {groups} groups needs an input of rank 3 or more, its rank is {rank}.")
    dims = st.shape_of(x)
    grouped = st.concat(ctx, st.gather(ctx, dims, st.vector(0)), st.vector(groups, -1))
    flat = st.add_shuffle(ctx, x, grouped)
    ones, zeros = ctx.scalar(1.0, x.dtype, (1, 1, 1)), ctx.scalar(0.0, x.dtype, (1, 1, 1))
    out = dense.normalization(ctx.net, flat, ones, zeros, [2], node.number("epsilon", 1e-5), 1)
    out = st.add_shuffle(ctx, ctx.name(out, node), dims)
    axes = [0, *range(2, rank)]
    out = arithmetic.elementwise(ctx.net, out, unsqueeze(ctx, scale, axes), "PROD")
    return arithmetic.elementwise(ctx.net, out, unsqueeze(ctx, bias, axes), "SUM")


def instance_normalization(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    types = [dtype_of(x) for x in inputs[:3]]
    if types[0] not in ("FLOAT", "HALF") and ctx.parser.instance_norm_types:
        raise Refused(f"Inputs must be either FLOAT or FLOAT16. Input type is {types[0]}.")
    if len(set(types)) != 1 and ctx.parser.instance_norm_types:
        raise Refused(
            "Inputs must be either all FLOAT or all FLOAT16. "
            f"Input type = {types[0]}, scale type = {types[1]}, bias type = {types[2]}."
        )
    if ctx.v10:
        return group_normalization(ctx, node, inputs)
    return [_instance_plugin(ctx, node, inputs)]


def _instance_plugin(ctx: Context, node: Node, inputs: List[Value]) -> NetTensor:
    """8.6 uses the plugin InstanceNormalization_TRT."""
    scale, bias = inputs[1], inputs[2]
    if not isinstance(scale, Weights):
        raise Refused("The scale tensor is required to be an initializer.")
    if not isinstance(bias, Weights):
        raise Refused("The bias tensor is required to be an initializer.")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    if not 3 <= rank <= 5:
        raise Refused("TensorRT only supports InstanceNormalization on 3D, 4D, or 5D tensors!")
    if rank == 3:
        x = unsqueeze(ctx, x, [3])
    fields = {"epsilon": node.number("epsilon", 1e-5), "relu": 0, "alpha": 0}
    out = dense.plugin(ctx.net, [x], "InstanceNormalization_TRT", "1", "V2", fields, x.dims)
    ctx.net.register(out, node.name)
    if rank == 3:
        from edgedla.importers.broadcast import squeeze

        out = squeeze(ctx, out, [3])
    return out


def layer_normalization(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if ctx.v10 and any(node.outputs[1:]):
        raise Refused("This version of TensorRT doesn't support mode than 1 outputs for LayerNormalization nodes!")
    x, scale = ctx.tensor(inputs[0]), ctx.tensor(inputs[1])
    dtype = x.dtype if x.dtype in ("HALF", "BF16") else "FLOAT"
    has_bias = len(inputs) == 3 and inputs[2] is not None
    if len(inputs) == 3 and not has_bias and not ctx.v10:
        raise Refused("the parser aborts on a third input ''; leave the input out")
    if ctx.v10:
        # Two scalars that nothing uses once there is a bias.
        ctx.scalar(1.0, dtype)
        default = ctx.scalar(0.0, dtype)
        bias = ctx.tensor(inputs[2]) if has_bias else default
    else:
        bias = ctx.tensor(inputs[2]) if has_bias else ctx.scalar(0.0, "FLOAT")
    rank = len(x.dims)
    axis = positive_axis(node.integer("axis", -1), rank)
    compute = trt_type(ctx, node.integer("stash_type", 1)) or "FLOAT"
    x, scale = same_rank(ctx, x, scale)
    x, bias = same_rank(ctx, x, bias)
    out = dense.normalization(ctx.net, x, scale, bias, range(axis, rank), node.number("epsilon", 1e-5), 1, compute)
    return [ctx.name(out, node) if ctx.parser.layer_norm_named else out]


def lrn(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    out = dense.lrn(
        ctx.net, x, node.required_int("size"), node.number("alpha", 0.0001), node.number("beta", 0.75), node.number("bias", 1.0)
    )
    return [ctx.name(out, node)]


def lp_normalization(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    p = node.integer("p", 2)
    if p not in (1, 2):
        raise Refused("Only L1 and L2 normalization are supported.")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    axis = positive_axis(node.integer("axis", -1), rank)
    if x.dtype not in ("FLOAT", "HALF"):
        raise Refused(f"Only float inputs/outputs supported in LpNormalization. The current data type = {x.dtype}.")
    zero = to_rank(ctx, ctx.scalar(0.0, x.dtype), rank)
    net = ctx.net
    if p == 1:
        norm = ctx.name(arithmetic.unary(net, x, "ABS"), node)
        norm = ctx.name(dense.reduce(net, norm, "SUM", [axis], True), node)
    else:
        norm = ctx.name(arithmetic.elementwise(net, x, x, "PROD"), node)
        norm = ctx.name(dense.reduce(net, norm, "SUM", [axis], True), node)
        norm = ctx.name(arithmetic.unary(net, norm, "SQRT"), node)
    mask = ctx.name(arithmetic.elementwise(net, norm, zero, "EQUAL"), node)
    mask = ctx.cast_helper(mask, x.dtype)
    norm = ctx.name(arithmetic.elementwise(net, norm, mask, "SUM"), node)
    return [ctx.name(arithmetic.elementwise(net, x, norm, "DIV"), node)]


def mean_variance_normalization(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """(x - mean) / (sqrt(mean((x - mean)^2)) + 1e-9)"""
    x = ctx.tensor(inputs[0])
    if x.dtype not in ("FLOAT", "HALF", "BF16"):
        raise Refused(
            "Only float32/float16/bfloat16 inputs/outputs supported in MeanVarianceNormalization. "
            f"The current data type = {x.dtype}."
        )
    rank = len(x.dims)
    axes = [positive_axis(a, rank) for a in node.ints("axes", (0, 2, 3))]
    net = ctx.net
    mean = ctx.name(dense.reduce(net, x, "AVG", axes, True), node)
    numerator = ctx.name(arithmetic.elementwise(net, x, mean, "SUB"), node)
    squared = ctx.name(arithmetic.elementwise(net, numerator, numerator, "PROD"), node)
    variance = ctx.name(dense.reduce(net, squared, "AVG", axes, True), node)
    deviation = ctx.name(arithmetic.unary(net, variance, "SQRT"), node)
    epsilon = ctx.scalar(1e-9, "FLOAT", (1,) * rank)
    deviation = ctx.name(arithmetic.elementwise(net, deviation, epsilon, "SUM"), node)
    return [ctx.name(arithmetic.elementwise(net, numerator, deviation, "DIV"), node)]


def image_scaler(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    node.required("bias")
    return [ctx.name(dense.scale(ctx.net, ctx.tensor(inputs[0])), node)]
