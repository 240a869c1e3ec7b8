"""Split: one SLICE for each part."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.context import Context
from edgedla.importers.dtypes import refuse_types
from edgedla.importers.node import Node, positive_axis
from edgedla.importers.operand import Value
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def split(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    x = ctx.tensor(inputs[0])
    rank = len(x.dims)
    dims = st.shape_of(x)
    axis = positive_axis(node.integer("axis", 0), rank)
    if axis >= rank:
        raise Refused(f"Split axis {axis} invalid for rank {rank}")
    subscripts = list(range(rank))
    subscripts[axis] = rank
    positions = st.vector_of(subscripts)
    count = len(node.outputs)
    listed: List[int] = []
    tensor_sizes: Optional[st.ShapeTensor] = None
    along: Optional[st.ShapeTensor] = None
    by_input = ctx.opset >= 13 and len(inputs) == 2 and inputs[1] is not None
    has_list = by_input or (ctx.opset < 13 and node.has("split"))
    last: Optional[st.ShapeTensor] = None
    if has_list:
        if ctx.v10 and by_input and ctx.opset >= 18 and node.has("num_outputs"):
            raise Refused(
                "Either 'split' should be provided as an input or 'num_outputs' should be provided as an attribute. "
                "But not both."
            )
        if not by_input:
            listed = node.ints("split")
        elif isinstance(inputs[1], Weights):
            listed = inputs[1].integers()
        else:
            tensor_sizes = st.from_input(ctx, inputs[1])
        if listed and len(listed) != count:
            raise Refused(
                "The number of the split attribute misaligns with the number of outputs. "
                f"Number of split attributes = {len(listed)}, number of outputs = {count}."
            )
    else:
        along, last = _equal_parts(ctx, node, st.gather(ctx, dims, st.vector(axis)), count)
    zeros, ones = st.similar(ctx, dims, 0), st.similar(ctx, dims, 1)
    starts, start = zeros, st.vector(0)
    sizes = None if along is None else st.interlace(ctx, dims, along, positions)
    outputs: List[Any] = []
    for i in range(count):
        if i:
            assert along is not None
            start = st.add(ctx, start, along)
            starts = st.interlace(ctx, zeros, start, positions)
        if listed:
            along, sizes = st.vector(listed[i]), None
        elif tensor_sizes is not None:
            along, sizes = st.gather(ctx, tensor_sizes, st.vector(i)), None
        elif last is not None and i == count - 1:
            along, sizes = last, None
        if sizes is None:
            assert along is not None
            sizes = st.interlace(ctx, dims, along, positions)
        outputs.append(ctx.name(st.add_slice(ctx, x, starts, sizes, ones), node))
    return outputs


def _equal_parts(ctx: Context, node: Node, whole: st.ShapeTensor, count: int) -> Tuple[st.ShapeTensor, Optional[st.ShapeTensor]]:
    """Size of each part, and of the last one where it differs: 10.3 rounds up and leaves the rest, 8.6 rounds down."""
    if not ctx.v10:
        if whole.known and whole.numbers()[0] % count:
            ctx.departs(node, "gives equal parts and drops the rest; name the sizes of the parts")
        return st.floor_div(ctx, whole, st.vector(count)), None
    if ctx.opset >= 18 and node.has("num_outputs") and node.integer("num_outputs", count) != count:
        raise Refused(
            "The number of node outputs is not the same as the value of 'num_outputs' attribute. "
            f"num_outputs attribute value = {node.integer('num_outputs', count)}, number of node outputs = {count}."
        )
    along = st.floor_div(ctx, st.add(ctx, whole, st.vector(count - 1)), st.vector(count))
    last = st.sub(ctx, whole, st.mul(ctx, along, st.vector(count - 1)))
    if last.known and last.numbers()[0] < 0:
        raise Refused("The last chunk size is negative, see details in https://github.com/onnx/onnx/issues/5766")
    return along, last
