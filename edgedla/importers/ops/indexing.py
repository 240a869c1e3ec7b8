"""Gather and scatter operators, OneHot, NonZero, ReverseSequence."""

from __future__ import annotations

from typing import Any, List

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import squeeze, to_scalar, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.dtypes import dtype_of, rank_of, refuse_types
from edgedla.importers.network import arithmetic, dense, selection, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node, positive_axis, single_axis
from edgedla.importers.operand import Value
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def _indices(ctx: Context, data: NetTensor, indices: NetTensor) -> NetTensor:
    """10.3 casts indices to INT32, unless the data is INT64."""
    if ctx.v10 and data.dtype != "INT64":
        return ctx.cast_helper(indices, "INT32")
    return indices


def gather(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    data = ctx.tensor(inputs[0])
    indices = ctx.tensor(inputs[1])
    axis = single_axis(node.integer("axis", 0), rank_of(inputs[0]))
    if indices.dtype == "INT64":
        # GatherElements and GatherND cast INT32 indices too.
        indices = _indices(ctx, data, indices)
    return [ctx.name(shapes.gather(ctx.net, data, indices, axis), node)]


def gather_elements(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    data = ctx.tensor(inputs[0])
    indices = ctx.tensor(inputs[1])
    axis = single_axis(node.integer("axis", 0), len(data.dims))
    return [ctx.name(selection.gather_v2(ctx.net, data, _indices(ctx, data, indices), "ELEMENT", axis), node)]


def gather_nd(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    data = ctx.tensor(inputs[0])
    indices = ctx.tensor(inputs[1])
    batch = node.integer("batch_dims", 0)
    out = selection.gather_v2(ctx.net, data, _indices(ctx, data, indices), "ND", 0, batch)
    return [ctx.name(out, node)]


def _scatter(ctx: Context, node: Node, inputs: List[Value], mode: str, axis: int) -> NetTensor:
    refuse_types(inputs[0], "UINT8")
    data, indices, updates = ctx.tensor(inputs[0]), ctx.tensor(inputs[1]), ctx.tensor(inputs[2])
    if mode == "ELEMENT":
        if not len(data.dims) == len(indices.dims) == len(updates.dims):
            raise Refused(
                "Input dimensions to ScatterElements must have the same rank! "
                f"data rank =  {len(data.dims)}, indices rank = {len(indices.dims)}, updates rank = {len(updates.dims)}."
            )
        for what, t in (("Indices", indices), ("Updates", updates)):
            for i, (small, large) in enumerate(zip(t.dims, data.dims)):
                if small > large >= 0:
                    raise Refused(
                        f"{what} dimensions must be less than data dimensions! {what.lower()} dimension = {small}, "
                        f"data dimension = {large} on index {i}."
                    )
    if ctx.v10:
        indices = arithmetic.cast(ctx.net, indices, "INT32")
    return ctx.name(selection.scatter(ctx.net, data, indices, updates, mode, axis), node)


def scatter_nd(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if node.has("reduction"):
        if ctx.v10:
            raise Refused("Attribute reduction is not supported.")
        _note_lost_reduction(ctx, node)
    return [_scatter(ctx, node, inputs, "ND", 0)]


def scatter_elements(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    axis = positive_axis(node.integer("axis", 0), rank_of(inputs[0]))
    reduction = node.text("reduction", "none")
    if ctx.v10 and reduction != "none":
        return [_scatter_plugin(ctx, node, inputs, axis, reduction)]
    _note_lost_reduction(ctx, node)
    return [_scatter(ctx, node, inputs, "ELEMENT", axis)]


def _note_lost_reduction(ctx: Context, node: Node) -> None:
    if node.text("reduction", "none") != "none":
        ctx.departs(node, "ignores reduction and overwrites")


def _scatter_plugin(ctx: Context, node: Node, inputs: List[Value], axis: int, reduction: str) -> NetTensor:
    """With a reduction 10 uses the plugin ScatterElements."""
    data, indices, updates = ctx.tensor(inputs[0]), ctx.tensor(inputs[1]), ctx.tensor(inputs[2])
    fields = {"axis": axis, "reduction": reduction}
    version, api = ("2", "V3") if ctx.parser.scatter_v3 else ("1", "V2")
    out = dense.plugin(ctx.net, [data, indices, updates], "ScatterElements", version, api, fields, data.dims)
    return ctx.name(out, node)


def one_hot(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    for x in inputs[:3]:
        refuse_types(x, "UINT8")
    values, indices, depth = ctx.tensor(inputs[2]), ctx.tensor(inputs[0]), None
    if ctx.v10:
        if dtype_of(inputs[0]) != "INT32":
            indices = ctx.cast_helper(indices, "INT32")
        depth = ctx.tensor(inputs[1])
        if dtype_of(inputs[1]) != "INT32":
            depth = ctx.cast_helper(depth, "INT32")
    else:
        depth = ctx.tensor(inputs[1])
        if indices.dtype != "INT32":
            indices = ctx.cast_helper(indices, "INT32")
        if depth.dtype != "INT32":
            depth = ctx.cast_helper(depth, "INT32")
    depth = to_scalar(ctx, depth)
    axis = node.integer("axis", -1)
    positive_axis(axis, len(indices.dims) + 1)
    if not ctx.v10 and depth.value is None:
        raise Refused("OneHot does not support dynamic depth input")
    return [ctx.name(selection.one_hot(ctx.net, indices, values, depth, axis), node)]


def non_zero(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    x = ctx.tensor(inputs[0])
    allowed = ("FLOAT", "HALF", "BF16", "INT32", "INT64", "INT8", "BOOL")
    if x.dtype not in allowed:
        raise Refused(
            "Only FLOAT32, FLOAT16, BFLOAT16, INT32, INT64, INT8 or BOOL input is supported for the NonZero operator "
            f"in this version of TensorRT. The current type is {x.dtype}."
        )
    out = ctx.name(selection.non_zero(ctx.net, x, "INT32"), node)
    return [ctx.cast_helper(out, "INT64") if ctx.v10 else out]


def reverse_sequence(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    batch, sequence = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if batch == sequence:
        raise Refused("batch_axis and time_axis cannot be the same")
    if len(inputs) != 2:
        raise Refused(f"ReverseSequence expects two input tensors: input and sequence_lens. Current input size = {len(inputs)}.")
    refuse_types(inputs[0], "UINT8")
    x, lengths = ctx.tensor(inputs[0]), ctx.tensor(inputs[1])
    if len(x.dims) < 2:
        raise Refused(f"Rank of input must be at least two. Current rank of inputs = {len(x.dims)}.")
    if len(lengths.dims) != 1:
        raise Refused(f"Rank of sequence_lens must be one. Current rank of sequence lens = {len(lengths.dims)}.")
    for name, axis in (("batch_axis", batch), ("time_axis", sequence)):
        if not 0 <= axis <= len(x.dims):
            raise Refused(f"Invalid {name}")
    if ctx.parser.reverse_sequence_layer:
        return [ctx.name(selection.reverse_sequence(ctx.net, x, lengths, batch, sequence), node)]
    return [_reversed_by_slices(ctx, x, inputs[1], batch)]


def _reversed_by_slices(ctx: Context, x: NetTensor, lengths: Any, batch: int) -> NetTensor:
    """Per sequence: a SLICE reverses its first part, and the rest follows; a CONCATENATION joins all sequences."""
    if batch not in (0, 1) or x.dims[batch] < 0:
        raise Refused("ReverseSequence supports a static batch on axis 0 or 1 alone.")
    rank = len(x.dims)
    sequences = []
    for i in range(x.dims[batch]):
        start = [i if axis == batch else 0 for axis in range(rank)]
        size = [1 if axis == batch else d for axis, d in enumerate(x.dims)]
        one = squeeze(ctx, shapes.slice_layer(ctx.net, x, start, size, [1] * rank), [batch])
        if isinstance(lengths, Weights):
            length = st.vector(lengths.integers()[i])
        else:
            length = st.from_tensor(shapes.slice_layer(ctx.net, ctx.tensor(lengths), [i], [1], [1]))
        steps, others = st.gather(ctx, st.shape_of(one), st.vector(0)), st.vector_of(one.dims[1:])
        zeros, ones = st.vector_of([0] * (rank - 2)), [1] * (rank - 2)
        last = st.concat(ctx, st.sub(ctx, length, st.vector(1)), zeros)
        turned = st.add_slice(ctx, one, last, st.concat(ctx, length, others), st.vector_of([-1, *ones]))
        rest = st.concat(ctx, st.sub(ctx, steps, length), others)
        tail = st.add_slice(ctx, one, st.concat(ctx, length, zeros), rest, st.vector_of([1, *ones]))
        sequences.append(unsqueeze(ctx, shapes.concatenation(ctx.net, [turned, tail], 0), [batch]))
    return shapes.concatenation(ctx.net, sequences, batch)
