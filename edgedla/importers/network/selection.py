"""Layers that pick or place elements by index or rank: gather and scatter of elements, one-hot, top-k, non-zero."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from edgedla.importers.network import known
from edgedla.importers.network.core import NetTensor, Network
from edgedla.importers.refuse import Refused


def gather_v2(
    net: Network, data: NetTensor, indices: NetTensor, mode: str, axis: int = 0, elementwise_dims: int = 0
) -> NetTensor:
    """GatherElements (ELEMENT) and GatherND (ND)."""
    params = {"mode": mode, "axis": axis, "nb_elementwise_dims": elementwise_dims}
    if mode == "ELEMENT":
        dims = indices.dims
    else:
        if not indices.dims:
            raise Refused("GatherND indices must have rank 1 or more")
        last = indices.dims[-1]
        if last < 0 or elementwise_dims + last > len(data.dims):
            raise Refused(f"GatherND: index depth {last} does not fit data of rank {len(data.dims)}")
        dims = indices.dims[:-1] + data.dims[elementwise_dims + last :]
    return net.emit("GATHER", [data, indices], params, dims, data.dtype)


def scatter(net: Network, data: NetTensor, indices: NetTensor, updates: NetTensor, mode: str, axis: int = 0) -> NetTensor:
    return net.emit("SCATTER", [data, indices, updates], {"mode": mode, "axis": axis}, data.dims, data.dtype)


def one_hot(net: Network, indices: NetTensor, values: NetTensor, depth: NetTensor, axis: int) -> NetTensor:
    at = axis + len(indices.dims) + 1 if axis < 0 else axis
    size = known.first_of(depth.value, -1)
    dims = indices.dims[:at] + (size,) + indices.dims[at:]
    return net.emit("ONE_HOT", [indices, values, depth], {"axis": axis}, dims, values.dtype)


def non_zero(net: Network, x: NetTensor, dtype: str) -> NetTensor:
    return net.emit("NON_ZERO", [x], {}, (len(x.dims), -1), dtype)


def reverse_sequence(net: Network, x: NetTensor, lengths: NetTensor, batch_axis: int, sequence_axis: int) -> NetTensor:
    params = {"batch_axis": batch_axis, "sequence_axis": sequence_axis}
    return net.emit("REVERSE_SEQUENCE", [x, lengths], params, x.dims, x.dtype)


def top_k(net: Network, x: NetTensor, op: str, k: int, axis: int, k_tensor: Optional[NetTensor] = None) -> List[NetTensor]:
    params: Dict[str, Any] = {"op": op, "k": k, "axes": [axis]}
    inputs: List[Optional[NetTensor]] = [x]
    if k_tensor is not None:
        inputs.append(k_tensor)
        params["k_from_tensor"] = True
        k = known.first_of(k_tensor.value, -1)
        params["k"] = k
    dims = x.dims[:axis] + (k,) + x.dims[axis + 1 :]
    return net.emit_many("TOPK", inputs, params, [(dims, x.dtype), (dims, "INT32")])
