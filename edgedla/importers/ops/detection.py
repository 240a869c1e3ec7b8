"""Operators of detectors that select or sample: NonMaxSuppression, RoiAlign, DeformConv, GridSample."""

from __future__ import annotations

from typing import List, Optional

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import constant_of_shape, squeeze, to_scalar, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.dtypes import dtype_of, refuse_types
from edgedla.importers.network import arithmetic, dense, evaluate, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node
from edgedla.importers.operand import Value
from edgedla.importers.ops.windows import read_window
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def _scalar_input(ctx: Context, x: Value) -> NetTensor:
    """A 0-D tensor of a node's input; weights of one element become a 0-D CONSTANT at once."""
    if isinstance(x, Weights):
        if x.count != 1:
            raise Refused(f"Cannot convert weights of dims {list(x.dims)} to a scalar.")
        return ctx.net.constant((), x.dtype, evaluate.shuffle(x.value(), None, (), None, (), x.dtype), x.name or None)
    return to_scalar(ctx, ctx.tensor(x))


def non_max_suppression(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if not 2 <= len(inputs) <= 5:
        raise Refused(f"The node requires between 2-5 inputs. The actual input size is {len(inputs)}.")
    boxes, scores = ctx.tensor(inputs[0]), ctx.tensor(inputs[1])
    for what, t in (("boxes", boxes), ("scores", scores)):
        if len(t.dims) != 3:
            raise Refused(f"The {what} tensor must be 3D. The actual rank is {len(t.dims)}.")
    limit_input, overlap_input, score_input = (inputs + [None] * 3)[2:5]
    if limit_input is not None:
        limit = _scalar_input(ctx, limit_input)
        if ctx.v10:
            largest = ctx.scalar((1 << 31) - 1, "INT64")
            limit = arithmetic.elementwise(ctx.net, limit, largest, "MIN")
            limit = ctx.cast_helper(limit, "INT32")
    else:
        limit = arithmetic.scalar(ctx.net, 0, "INT32")
    overlap: Optional[NetTensor] = None if overlap_input is None else _scalar_input(ctx, overlap_input)
    score: Optional[NetTensor] = None if score_input is None else _scalar_input(ctx, score_input)
    transposed = shapes.shuffle(ctx.net, scores, first=[0, 2, 1])
    ctx.net.register(transposed, node.name)
    center = node.integer("center_point_box", 0)
    if center not in (0, 1):
        raise Refused("Invalid value provided for the center_point_box attribute")
    made = dense.nms(ctx.net, [boxes, transposed, limit, overlap, score], "CENTER_SIZES" if center else "CORNER_PAIRS")
    ctx.net.register(made[0], node.name)
    return [ctx.cast_helper(made[0], "INT64") if ctx.v10 else made[0]]


def roi_align(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    mode = node.text("mode", "avg")
    if mode not in ("avg", "max"):
        raise Refused("Mode must be avg or max!")
    ratio = node.integer("sampling_ratio", 0)
    if ratio < 0:
        raise Refused("Sampling ratio cannot be negative!")
    half_pixel = 0
    if ctx.opset >= 16:
        form = node.text("coordinate_transformation_mode", "half_pixel")
        if form not in ("half_pixel", "output_half_pixel"):
            raise Refused("Coordinate transformation mode must be half_pixel or output_half_pixel!")
        half_pixel = int(form == "half_pixel")
    x, rois, batch = ctx.tensor(inputs[0]), ctx.tensor(inputs[1]), ctx.tensor(inputs[2])
    if ctx.v10:
        batch = ctx.cast_helper(batch, "INT32")
    if len(rois.dims) != 2 or rois.dims[1] not in (4, -1):
        raise Refused(f"Found incorrect dimensions for ROIs input! Rank of ROI input = {len(rois.dims)}.")
    height, width = node.integer("output_height", 1), node.integer("output_width", 1)
    fields = {
        "coordinate_transformation_mode": half_pixel,
        "mode": int(mode == "avg"),
        "output_height": height,
        "output_width": width,
        "sampling_ratio": node.integer("sampling_ratio", 1 if not ctx.v10 else 0),
        "spatial_scale": node.number("spatial_scale", 1.0),
    }
    dims = (rois.dims[0], x.dims[1], height, width)
    version, api = ("2", "V3") if ctx.parser.roi_align_v3 else ("1", "V2")
    return [ctx.name(dense.plugin(ctx.net, [x, rois, batch], "ROIAlign_TRT", version, api, fields, dims), node)]


def deform_conv(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """The plugin ModulatedDeformConv2d; a mask of ones where the node has none."""
    types = {dtype_of(x) for x in inputs if x is not None}
    if not types <= {"FLOAT", "HALF"} or len(types) != 1:
        raise Refused(f"Inputs must be either all FLOAT or all FLOAT16, they are {', '.join(sorted(types))}.")
    x, weights, offset = (ctx.tensor(t) for t in inputs[:3])
    bias, mask_input = (inputs + [None, None])[3:5]
    rank = len(x.dims)
    if rank not in (3, 4) or len(weights.dims) != rank or len(offset.dims) != rank:
        raise Refused("TensorRT only supports DeformConv on 3D, or 4D tensors!")
    if rank == 3:
        x, weights, offset = unsqueeze(ctx, x, [3]), unsqueeze(ctx, weights, [3]), unsqueeze(ctx, offset, [3])
    w = read_window(node, list(weights.dims[2:]), excludes_padding=False)
    if w.pre != w.post:
        raise Refused("TensorRT only supports DeformConv with the same padding at both ends of an axis.")
    if mask_input is not None:
        mask = ctx.tensor(mask_input)
        if rank == 3:
            mask = unsqueeze(ctx, mask, [3])
    else:
        ones = ctx.scalar(1.0, x.dtype, (1,))
        mask = constant_of_shape(ctx, ones, st.tensor_of(ctx, st.shape_of(offset)))
    tensors = [x, offset, mask, weights]
    if bias is not None:
        tensors.append(ctx.tensor(bias))
    fields = {
        "group": node.integer("group", 1),
        "deformable_group": node.integer("offset_group", 1),
        "stride": w.stride,
        "padding": w.pre,
        "dilation": w.dilation,
    }
    spatial = (
        dense.window_out(size, kernel, stride, pre, post, dilation, w.mode)
        for size, kernel, stride, pre, post, dilation in zip(x.dims[2:], w.kernel, w.stride, w.pre, w.post, w.dilation)
    )
    dims = (x.dims[0], weights.dims[0], *spatial)
    out = ctx.name(dense.plugin(ctx.net, tensors, "ModulatedDeformConv2d", "1", "V2", fields, dims), node)
    return [squeeze(ctx, out, [3]) if rank == 3 else out]


def grid_sample(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "BOOL", "UINT8")
    refuse_types(inputs[1], "BOOL", "UINT8")
    if len(inputs) != 2:
        raise Refused("TRT expects two input tensors: grid and input")
    x, grid = ctx.tensor(inputs[0]), ctx.tensor(inputs[1])
    if not x.dims:
        raise Refused("The input tensor cannot be a scalar.")
    if len(x.dims) != len(grid.dims):
        raise Refused(
            "The input tensor and the grid tensor must have the same rank. "
            f"Rank of grid tensor = {len(grid.dims)}, rank of input = {len(x.dims)}."
        )
    sample = {"zeros": "FILL", "border": "CLAMP", "reflection": "REFLECT"}
    modes = {"nearest": "NEAREST", "bilinear": "LINEAR", "bicubic": "CUBIC"}
    mode = node.text("mode", "bilinear")
    if mode not in modes:
        ctx.departs(node, f"does not know the mode {mode!r} of opset 20 and takes the nearest point; export with opset 16")
    out = dense.grid_sample(
        ctx.net,
        x,
        grid,
        modes.get(mode, "NEAREST"),
        node.integer("align_corners", 0) == 1,
        sample.get(node.text("padding_mode", "zeros"), "FILL"),
    )
    return [ctx.name(out, node)]
