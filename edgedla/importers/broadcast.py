"""How the parser brings operands to one rank, and the reshapes it writes for squeeze, unsqueeze, flatten, transpose."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.context import Context
from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node
from edgedla.importers.refuse import Refused


def to_rank(ctx: Context, x: NetTensor, rank: int) -> NetTensor:
    """`x` with leading ones up to `rank`, by a SHUFFLE where it has fewer dims."""
    if ctx.v10 and ctx.opset < 7:
        raise Refused("Pre-opset 7 broadcasting is unsupported in this version of the ONNX parser")
    rank_of_x = len(x.dims)
    if rank_of_x > rank:
        raise Refused("Cannot broadcast a higher rank tensor to a lower rank tensor.")
    if rank_of_x == rank:
        return x
    dims = st.concat(ctx, st.fill(ctx, 1, st.vector(rank - rank_of_x)), st.shape_of(x))
    out = st.add_shuffle(ctx, x, dims)
    return ctx.helper_name(out, "ONNXTRT_Broadcast")


def same_rank(ctx: Context, a: NetTensor, b: NetTensor) -> Tuple[NetTensor, NetTensor]:
    rank_a, rank_b = len(a.dims), len(b.dims)
    if rank_a == rank_b:
        return a, b
    if rank_a > rank_b:
        return a, to_rank(ctx, b, rank_a)
    return to_rank(ctx, a, rank_b), b


def squeeze(ctx: Context, x: NetTensor, axes: Sequence[int], node: Optional[Node] = None, axes_input: Any = None) -> NetTensor:
    """Drop `axes` (non-negative): a SQUEEZE, before 10.7 a reshape; named after the node if it is given."""
    if ctx.parser.squeeze_layers:
        out = shapes.squeeze(ctx.net, x, _axes_constant(ctx, axes, axes_input), axes)
        return _named(ctx, out, node, "ONNXTRT_squeezeTensor")
    keep = [i for i in range(len(x.dims)) if i not in axes]
    dims = st.gather(ctx, st.shape_of(x), st.vector_of(keep))
    out = st.add_shuffle(ctx, x, dims)
    return _named(ctx, out, node, "ONNXTRT_squeezeTensor")


def unsqueeze(ctx: Context, x: NetTensor, axes: Sequence[int], node: Optional[Node] = None, axes_input: Any = None) -> NetTensor:
    """Insert a 1 at each of `axes` (positions in the result): an UNSQUEEZE, before 10.7 a reshape."""
    sorted_axes = sorted(set(axes))
    rank = len(x.dims)
    if rank + len(sorted_axes) > shapes.MAX_DIMS:
        raise Refused("Failed to unsqueeze tensor!")
    if ctx.parser.squeeze_layers:
        out = shapes.unsqueeze(ctx.net, x, _axes_constant(ctx, axes, axes_input), sorted_axes)
        return _named(ctx, out, node, "ONNXTRT_unsqueezeTensor")
    subscripts: List[int] = list(range(rank))
    for axis in sorted_axes:
        subscripts.insert(axis, rank)
    dims = st.interlace(ctx, st.shape_of(x), st.vector(1), st.vector_of(subscripts))
    out = st.add_shuffle(ctx, x, dims)
    return _named(ctx, out, node, "ONNXTRT_unsqueezeTensor")


def _axes_constant(ctx: Context, axes: Sequence[int], axes_input: Any) -> NetTensor:
    """The CONSTANT that holds the axes: the node's own input, or the parser's."""
    return ctx.constant(list(axes), "INT32") if axes_input is None else ctx.tensor(axes_input)


def flatten(ctx: Context, x: NetTensor, axis: int, node: Optional[Node] = None) -> NetTensor:
    """A reshape to 2-D: the dims before `axis` and the others."""
    dims = st.shape_of(x)
    first = st.product(ctx, dims, 0, axis, 1)
    second = st.product(ctx, dims, axis, dims.size, 1)
    out = st.add_shuffle(ctx, x, st.concat(ctx, first, second), zero_is_placeholder=False)
    return _named(ctx, out, node, "ONNXTRT_flattenTensor")


def _named(ctx: Context, out: NetTensor, node: Optional[Node], helper: str) -> NetTensor:
    if node is not None:
        return ctx.name(out, node)
    return ctx.helper_name(out, helper)


def to_scalar(ctx: Context, x: NetTensor) -> NetTensor:
    """A 0-D view of a tensor of one element.

    Raises:
        Refused: it has more.
    """
    if not x.dims:
        return x
    if shapes.volume(x.dims) != 1:
        raise Refused(f"Failed to convert an input of dims {list(x.dims)} to a scalar.")
    out = shapes.shuffle(ctx.net, x, reshape=())
    return ctx.helper_name(out, "ONNXTRT_convertToScalar")


def transpose(ctx: Context, x: NetTensor, perm: Sequence[int], node: Node) -> NetTensor:
    """A SHUFFLE with a first transpose; 8.6 writes a reshape where only ones move."""
    rank = len(x.dims)
    if sorted(perm) != list(range(rank)):
        raise Refused(f"Failed to transpose the input: {list(perm)} is not a permutation of {rank} axes")
    if ctx.parser.identity_transpose and list(perm) == list(range(rank)):
        out = arithmetic.identity(ctx.net, x)
    elif ctx.v10 or _moves_data(x.dims, perm):
        out = shapes.shuffle(ctx.net, x, first=perm)
    else:
        out = shapes.shuffle(ctx.net, x, reshape=[x.dims[i] for i in perm], zero_is_placeholder=False)
    ctx.net.register(out, node.name)
    return out


def _moves_data(dims: Sequence[int], perm: Sequence[int]) -> bool:
    last = 0
    for source in perm:
        if dims[source] == -1:
            return True
        if dims[source] != 1:
            if source < last:
                return True
            last = source
    return False


def axis_length(ctx: Context, x: NetTensor, axis: int, dims: Tuple[int, ...] = (), dtype: str = "INT32") -> NetTensor:
    """The size of one axis as a tensor of `dims` (scalar, or one element).

    8.6 writes a CONSTANT where the size is static; 10.3 always SHAPE, CAST, SLICE and, for a scalar, SHUFFLE.
    """
    if not 0 <= axis < len(x.dims):
        raise Refused(f"axis {axis} does not exist in a tensor of rank {len(x.dims)}")
    if not ctx.v10:
        if x.dims[axis] >= 0:
            return ctx.scalar(x.dims[axis], dtype, dims)
        out = shapes.gather(ctx.net, shapes.shape(ctx.net, x, "INT32"), ctx.scalar(axis, "INT32", dims), 0)
        return ctx.helper_name(out, "ONNXTRT_gatherDimension")
    shape = shapes.shape(ctx.net, x, "INT64")
    if dtype != "INT64":
        shape = arithmetic.cast(ctx.net, shape, dtype)
    out = shapes.slice_layer(ctx.net, shape, [axis], [1], [1])
    ctx.helper_name(out, "ONNXTRT_getAxisLength")
    if not dims:
        out = shapes.shuffle(ctx.net, out, reshape=(), zero_is_placeholder=False)
        ctx.helper_name(out, "ONNXTRT_convertToScalar")
    return out


def constant_of_shape(ctx: Context, value: NetTensor, shape: NetTensor) -> NetTensor:
    """`value` repeated to the dims held by the tensor `shape`: a SLICE with stride 0."""
    dims = st.from_tensor(shape)
    zeros = st.similar(ctx, dims, 0)
    value = st.reshape(ctx, value, st.similar(ctx, dims, 1))
    return st.add_slice(ctx, value, zeros, dims, zeros)
