"""Resize and Upsample."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, TypeVar

from edgedla.importers import shape_tensor as st
from edgedla.importers.context import Context
from edgedla.importers.dtypes import refuse_types
from edgedla.importers.network import arithmetic
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.lazy import fold
from edgedla.importers.network.partial import dims_of
from edgedla.importers.node import Node, single_axis
from edgedla.importers.operand import Operand, Value
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights

Number = TypeVar("Number", int, float)

COORDINATES = {
    "align_corners": "ALIGN_CORNERS",
    "tf_half_pixel_for_nn": "HALF_PIXEL",
    "pytorch_half_pixel": "HALF_PIXEL",
    "half_pixel": "HALF_PIXEL",
    "asymmetric": "ASYMMETRIC",
}
ROUNDING = {"floor": "FLOOR", "ceil": "CEIL", "round_prefer_floor": "HALF_DOWN", "round_prefer_ceil": "HALF_UP"}


class ResizeLayer:
    """A RESIZE layer's settings while the node's attributes and inputs are read."""

    def __init__(self, x: NetTensor) -> None:
        self.x = x
        self.mode = "NEAREST"
        self.coordinates = "HALF_PIXEL"
        self.selector = "FORMULA"
        self.rounding = "HALF_DOWN"
        self.cubic = -0.75
        self.exclude_outside = False
        self.scales: Optional[List[float]] = None
        self.sizes: Optional[List[int]] = None
        self.size_tensor: Optional[NetTensor] = None

    def emit(self, ctx: Context) -> NetTensor:
        dims = self.x.dims
        params: Dict[str, Any] = {"mode": self.mode}
        inputs: List[Optional[NetTensor]] = [self.x]
        if self.size_tensor is not None:
            inputs.append(self.size_tensor)
            if self.size_tensor.dims != (len(dims),):
                raise Refused("resize size rank")
            dims = dims_of(self.size_tensor) or (-1,) * len(dims)
            params["size_source"] = "tensor"
            params["output_dims_resolved"] = list(dims)
        elif self.sizes is not None:
            dims = tuple(self.sizes)
            params["output_dims"] = list(dims)
        elif self.scales is not None:
            dims = tuple(scaled(d, s) for d, s in zip(dims, self.scales))
        params.update(
            scales=self.scales,
            coordinate_transformation=self.coordinates,
            selector=self.selector,
            rounding=self.rounding,
            cubic_coeff=self.cubic,
            exclude_outside=self.exclude_outside,
        )
        return ctx.net.emit("RESIZE", inputs, params, dims, self.x.dtype)


def scaled(size: int, scale: float) -> int:
    """floor(size * scale) in single precision, as TensorRT computes the dims of a RESIZE."""
    if size < 0:
        return -1
    if scale == int(scale):
        return size * int(scale)
    return int(fold().scaled_size(size, scale))


def check_scales(scales: Sequence[float], mode: str) -> None:
    """Linear resizes three dims at most, cubic two; the first ones must keep their size."""
    if any(not 0 < s < 1e6 for s in scales):
        raise Refused(f"resize scales {list(scales)} must be positive")
    free = {"LINEAR": 3, "CUBIC": 2}.get(mode)
    if free is not None and len(scales) > free and any(s != 1 for s in scales[: len(scales) - free]):
        what = "linear resizing on the outermost 3" if mode == "LINEAR" else "cubic resizing on the outermost 2"
        raise Refused(f"This version of TensorRT only supports {what} dimensions.")


def size_from_scales(ctx: Context, x: NetTensor, scales: Any) -> NetTensor:
    """floor(dims * scales) by layers: what the parser adds where the scales are not an initializer."""
    dims = st.tensor_of(ctx, st.shape_of(x))
    if ctx.v10:
        numbers = arithmetic.cast(ctx.net, dims, "FLOAT")
        ctx.net.register(numbers, "ONNXTRT_resizeShapeTensor_floatCast")
    else:
        numbers = arithmetic.identity(ctx.net, dims, "FLOAT")
    product = arithmetic.elementwise(ctx.net, ctx.tensor(scales), numbers, "PROD")
    if ctx.v10:
        ctx.net.register(product, "ONNXTRT_resizeShapeTensor_prod")
    floor = arithmetic.unary(ctx.net, product, "FLOOR")
    if ctx.v10:
        ctx.net.register(floor, "ONNXTRT_resizeShapeTensor_floor")
        out = arithmetic.cast(ctx.net, floor, "INT32")
        ctx.net.register(out, "ONNXTRT_resizeShapeTensor_intCast")
        return out
    return arithmetic.identity(ctx.net, floor, "INT32")


def _check_attributes(ctx: Context, node: Node, mode: str) -> None:
    if mode not in ("nearest", "linear", "cubic"):
        raise Refused("Invalid Resize mode")
    if mode == "cubic" and not ctx.parser.cubic_resize:
        raise Refused("This version of TensorRT does not support cubic interpolation!")
    if ctx.opset >= 11:
        coordinates = node.text("coordinate_transformation_mode", "half_pixel")
        nearest = node.text("nearest_mode", "round_prefer_floor")
        if coordinates == "tf_half_pixel_for_nn" and nearest != "round_prefer_floor":
            raise Refused("This version of TensorRT only support round_prefer_floor nearest mode in tf_half_pixel_for_nn!")
        if coordinates not in COORDINATES:
            raise Refused(
                "TensorRT only supports half_pixel, pytorch_half_pixel, tf_half_pixel_for_nn, asymmetric and "
                "align_corners transformation modes!"
            )
    if not ctx.v10:
        if node.integer("antialias", 0):
            ctx.departs(node, "ignores antialias; leave it out")
        if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            ctx.departs(node, "ignores keep_aspect_ratio_policy and stretches; name the sizes that are meant")
    else:
        if node.integer("antialias", 0):
            raise Refused("Antialiasing is not supported currently.", "leave antialias out; where the map shrinks, values change")
        if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise Refused("Only `stretch` is supported currently as `keep_aspect_ratio_policy`.")
        axes = node.ints("axes")
        if len(set(axes)) != len(axes):
            raise Refused("The input axes must have unique elements.")


def _begun(ctx: Context, inputs: List[Value]) -> Tuple[ResizeLayer, int, int]:
    """(the layer, the rank of its input, its number among the layers)."""
    refuse_types(inputs[0], "BOOL", "UINT8")
    x = ctx.tensor(inputs[0])
    if not x.dims:
        raise Refused("The input tensor cannot be a scalar.")
    ctx.net.number_of_layers += 1
    return ResizeLayer(x), len(x.dims), ctx.net.number_of_layers - 1


def resize(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    mode = node.text("mode", "nearest")
    _check_attributes(ctx, node, mode)
    layer, rank, number = _begun(ctx, inputs)
    layer.mode = {"nearest": "NEAREST", "linear": "LINEAR", "cubic": "CUBIC"}[mode]
    sizes_input: Value = None
    if ctx.opset >= 11:
        coordinates = node.text("coordinate_transformation_mode", "half_pixel")
        layer.coordinates = COORDINATES[coordinates]
        if coordinates == "tf_half_pixel_for_nn":
            layer.rounding = "CEIL"
        else:
            if coordinates == "pytorch_half_pixel":
                layer.selector = "UPPER"
            layer.rounding = ROUNDING.get(node.text("nearest_mode", "round_prefer_floor"), layer.rounding)
            layer.exclude_outside = bool(node.integer("exclude_outside", 0))
            if layer.mode == "CUBIC":
                layer.cubic = node.number("cubic_coeff_a", -0.75)
            if len(inputs) == 4:
                sizes_input = inputs[3]
    else:
        layer.coordinates = "ASYMMETRIC"
        if mode == "nearest":
            layer.rounding = "FLOOR"
    axes = node.ints("axes") if ctx.v10 and node.has("axes") else None
    if sizes_input is not None:
        _set_sizes(ctx, layer, sizes_input, axes)
    else:
        at = 2 if ctx.opset >= 11 else 1
        _set_scales(ctx, layer, inputs[at] if len(inputs) > at else None, axes)
    out = layer.emit(ctx)
    ctx.net.renumber([out], number)
    return [ctx.name(out, node)]


def _set_sizes(ctx: Context, layer: ResizeLayer, sizes: Operand, axes: Optional[List[int]]) -> None:
    rank = len(layer.x.dims)
    if ctx.v10 and isinstance(sizes, Weights):
        numbers = sizes.integers()
        if axes is not None:
            numbers = _spread(axes, numbers, list(layer.x.dims))
        if len(sizes.dims) != 1 or len(numbers) != rank:
            raise Refused(f"The shape of weights must align with input data. sizes = {numbers}, rank of input = {rank}.")
        layer.sizes = numbers
        return
    layer.size_tensor = ctx.tensor(sizes)
    if axes is not None:
        layer.size_tensor = _interlaced(ctx, layer, layer.size_tensor, axes)


def _spread(axes: List[int], values: List[Number], whole: List[Number]) -> List[Number]:
    rank = len(whole)
    fixed = [single_axis(a, rank) for a in axes]
    if len(fixed) != len(values):
        raise Refused("axes of Resize do not fit its sizes or scales")
    out = list(whole)
    for axis, value in zip(fixed, values):
        out[axis] = value
    return out


def _interlaced(ctx: Context, layer: ResizeLayer, sizes: NetTensor, axes: List[int]) -> NetTensor:
    """All dims from the dims of the input and the sizes of some axes, by layers."""
    rank = len(layer.x.dims)
    fixed = st.vector_of([single_axis(a, rank) for a in axes])
    dims = st.shape_of(layer.x)
    subscripts = st.interlace_subscripts(fixed, rank)
    return st.tensor_of(ctx, st.interlace(ctx, dims, st.from_tensor(sizes), subscripts))


def _set_scales(ctx: Context, layer: ResizeLayer, scales: Value, axes: Optional[List[int]]) -> None:
    rank = len(layer.x.dims)
    if scales is None:
        raise Refused("Resize has neither scales nor sizes")
    if not isinstance(scales, Weights):
        if axes and [single_axis(a, rank) for a in axes] != list(range(rank)):
            raise Refused("the attribute axes is not supported with scales that are not an initializer")
        layer.size_tensor = size_from_scales(ctx, layer.x, scales)
        return
    if len(scales.dims) != 1:
        raise Refused(f"The scales input must be 1D. Scales rank = {len(scales.dims)}.")
    numbers = [float(v) for v in scales.known().ravel()]
    if axes is not None:
        numbers = _spread(axes, numbers, [1.0] * rank)
    if len(numbers) != rank:
        raise Refused(
            "The shape of input scales must align with the input rank. "
            f"Rank of input scales = {len(numbers)}, rank of inputs = {rank}."
        )
    check_scales(numbers, layer.mode)
    layer.scales = numbers


def upsample(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    mode = node.text("mode", "nearest")
    if mode not in ("nearest", "linear", "bilinear"):
        raise Refused("The attribute mode can only be nearest, linear, or bilinear.")
    layer, rank, number = _begun(ctx, inputs)
    layer.mode = "NEAREST" if mode == "nearest" else "LINEAR"
    layer.coordinates, layer.rounding = "ASYMMETRIC", "FLOOR"
    if ctx.opset >= 9:
        if len(inputs) != 2:
            raise Refused(f"Operator Upsample requires exactly 2 inputs. Current input size = {len(inputs)}.")
        if isinstance(inputs[1], Weights) and inputs[1].dtype != "FLOAT":
            raise Refused("This version of TensorRT only supports FLOAT scales input.")
        _set_scales(ctx, layer, inputs[1], None)
    else:
        if not node.has("scales"):
            raise Refused("Attribute scales is missing.")
        scales = node.floats("scales")
        if len(scales) != rank:
            raise Refused(
                "The shape of the scales input must align with the dimensions of the input. "
                f"Current shape of the scales input = {len(scales)}, dimension of the input = {rank}."
            )
        check_scales(scales, layer.mode)
        layer.scales = scales
    out = layer.emit(ctx)
    ctx.net.renumber([out], number)
    return [ctx.name(out, node)]
