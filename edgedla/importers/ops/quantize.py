"""QuantizeLinear and DequantizeLinear, and TensorRT's own forms of them for FP8 and INT4."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from edgedla.importers.context import Context
from edgedla.importers.dtypes import refuse_types, trt_type
from edgedla.importers.network import dense, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.known import of_array
from edgedla.importers.network.limits import MAX_FOLDED_ELEMENTS
from edgedla.importers.node import Node, positive_axis
from edgedla.importers.operand import Value
from edgedla.importers.parser_releases import UINT8
from edgedla.importers.refuse import SYMMETRIC, Refused
from edgedla.importers.values import ONNX_TYPES, Weights


def _scale(ctx: Context, node: Node, x: Value) -> NetTensor:
    if isinstance(x, Weights) and not ctx.has_constant(x.name):
        if x.count <= 0:
            raise Refused("Cannot have scale with no coefficients.")
        array = x.array()
        if array is not None and not (array > 0).all():
            raise Refused("Scale coefficients must all be positive")
    return ctx.tensor(x)


#: Release from which the parser has the flag for UINT8 and zero points that are not 0: on Orin's DLA alone.
UINT8_FLAG_FROM = (10, 11)
NEEDS_FLAG = f"needs its flag {UINT8} for it (trtexec: --uint8AsymmetricQuantizationDLA); `edgedla build` sets it"


def _needs_flag(inputs: List[Value]) -> bool:
    """Whether data or zero point of a Q/DQ node is UINT8, or the zero point is not 0."""
    weights = [x for x in (inputs[0], *inputs[2:3]) if isinstance(x, Weights)]
    if any(x.onnx_type == ONNX_TYPES["UINT8"] for x in weights):
        return True
    zero = inputs[2] if len(inputs) > 2 else None
    array = zero.array() if isinstance(zero, Weights) else None
    return bool(array is not None and array.any())


#: Types that TensorRT quantizes to.
QUANTIZED: Tuple[str, ...] = ("FP8", "INT8", "INT4")


def _zero_point(ctx: Context, x: Value) -> Optional[NetTensor]:
    """The zero point as a tensor of FLOAT zeros; none where the type alone counts."""
    if isinstance(x, Weights) and not ctx.has_constant(x.name):
        array = x.array()
        if array is not None and array.any() and ctx.trt[:2] < UINT8_FLAG_FROM:
            raise Refused(
                "TensorRT only supports symmetric quantization. The zero point for the QuantizeLinear/DequantizeLinear "
                "operator must be all zeros.",
                SYMMETRIC,
            )
        if not ctx.v10:
            zeros = None if array is None else array.astype("float32")
            return ctx.tensor(Weights(x.name, x.dims, "FLOAT", 1, value=of_array(zeros, x.dims, "FLOAT")))
        # TensorRT wants FLOAT zeros: a CONSTANT of the parser's own, in 10.3 every time.
        if x.count > MAX_FOLDED_ELEMENTS:
            return ctx.net.constant(x.dims, "FLOAT", None, x.name)
        return ctx.constant([0.0] * x.count, "FLOAT", x.dims)
    return ctx.tensor(x)


def _check_scales(ctx: Context, x: NetTensor, scale: NetTensor, axis: int) -> None:
    """One scale for each channel, or since 10.3 for each block along one axis.

    Raises:
        Refused: their number or form does not fit.
    """
    rank, size = len(x.dims), shapes.volume(scale.dims)
    if ctx.v10 and len(scale.dims) == rank != 1:
        if any(d < 0 for d in x.dims):
            return
        blocks = [d // max(s, 1) for d, s in zip(x.dims, scale.dims)]
        if blocks.count(1) != rank - 1:
            raise Refused("Only a single blocking dimension is allowed.")
        if shapes.volume(x.dims) % size:
            raise Refused(
                "Inferred block size is not an integer. " f"Input volume = {shapes.volume(x.dims)}, scale volume = {size}."
            )
    elif ctx.v10 and len(scale.dims) != 1:
        raise Refused(f"Invalid rank for the scale tensor. Rank = {len(scale.dims)}.")
    elif rank and x.dims[axis] != size:
        raise Refused(
            "The number of scales is not equal to the number of output channels. "
            f"Number of output channels = {x.dims[axis]}, number of scales = {size}."
        )


def _target(ctx: Context, node: Node, zero: Any, custom: str) -> str:
    """The type quantized to: that of the zero point, else the attribute output_dtype, else INT8.

    Raises:
        Refused: the two differ, or TensorRT does not quantize to it.
    """
    given_type: Optional[str] = None
    if ctx.v10 and node.integer("output_dtype", 0):
        given_type = trt_type(ctx, node.integer("output_dtype", 0))
        if given_type is None:
            raise Refused("Attribute output_dtype specifies an unsupported data type.")
    if zero is not None:
        if given_type is not None and given_type != zero.dtype:
            raise Refused(f"Mismatch between attribute output_dtype {given_type} and zero-point data type {zero.dtype}.")
        return zero.dtype if zero.dtype in QUANTIZED else "INT8"
    if given_type is not None and given_type not in QUANTIZED:
        raise Refused(f"Attribute output_dtype specifies an invalid data type {given_type}.")
    return given_type or custom or "INT8"


def quantize(ctx: Context, node: Node, inputs: List[Value], *, dequantizes: bool, custom: str = "") -> List[Value]:
    flagged = ctx.trt[:2] >= UINT8_FLAG_FROM
    if not flagged:
        refuse_types(inputs[0], "UINT8")
    if len(inputs) < 2:
        raise Refused("This version of TensorRT requires at least 2 inputs for the QuantizeLinear/DequantizeLinear operator.")
    if not ctx.v10 and len(inputs) < 3:
        raise Refused("QuantizeLinear/DequantizeLinear without a zero point")
    if not flagged and not dequantizes and len(inputs) >= 3:
        refuse_types(inputs[2], "UINT8")
    if flagged and _needs_flag(inputs):
        ctx.departs(node, NEEDS_FLAG)
    x = ctx.tensor(inputs[0])
    scale = _scale(ctx, node, inputs[1])
    size = shapes.volume(scale.dims)
    zero: Optional[NetTensor] = None
    zero_input = inputs[2] if len(inputs) > 2 else None
    chosen = _target(ctx, node, zero_input, custom)
    if zero_input is not None:
        if chosen != "FP8":
            zero = _zero_point(ctx, zero_input)
        if zero is not None and shapes.volume(zero.dims) != size:
            raise Refused(
                "The scale and zero point must have the same volume. "
                f"Size of zero point = {shapes.volume(zero.dims)}, size of the scale = {size}."
            )
    rank = len(x.dims)
    axis = positive_axis(node.integer("axis", rank), rank)
    if size != 1:
        if axis == rank:
            axis = 0
        _check_scales(ctx, x, scale, axis)
    else:
        axis = 0 if rank <= 1 else 1
    if rank == 0:
        x = shapes.shuffle(ctx.net, x, reshape=(1,), zero_is_placeholder=False)
        if ctx.v10:
            ctx.net.register(x, "ONNXTRT_reshapeTensor")
    if chosen == "INT4" and x.dims and x.dims[-1] % 2 and all(d >= 0 for d in x.dims):
        raise Refused("Quantization to INT4 is not supported for tensors with an odd last dimension.")
    params: Dict[str, Any]
    if dequantizes:
        params = {"to": "FLOAT", "output_type_set": scale.dtype} if ctx.v10 else {"to": "FLOAT"}
        out = dense.qdq(ctx.net, "DEQUANTIZE", x, scale, zero, axis, scale.dtype, params)
    else:
        if ctx.v10:
            params = {"to": chosen, "precision": scale.dtype, "output_type_set": chosen}
        else:
            # The output's type shows once the tensor is a network output; until then it is FLOAT.
            params = {"to": "FLOAT"}
            chosen = "FLOAT"
        out = dense.qdq(ctx.net, "QUANTIZE", x, scale, zero, axis, chosen, params)
    if out.layer is not None:
        out.layer.name = node.name
    return [out]
