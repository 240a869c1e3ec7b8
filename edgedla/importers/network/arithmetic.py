"""Layers that work element by element: elementwise, unary, activation, cast, select, constants."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np

from edgedla.importers.network.core import Dims, NetTensor, Network
from edgedla.importers.network.fold import ELEMENTWISE, NUMPY_TYPES, UNARY, evaluate
from edgedla.importers.refuse import Refused

COMPARISONS = frozenset({"EQUAL", "LESS", "GREATER"})


def broadcast_dims(a: Dims, b: Dims) -> Dims:
    """Dims of an elementwise result; both ranks are equal in TensorRT.

    Raises:
        Refused: the dims do not broadcast.
    """
    if a == b:
        return a
    if len(a) != len(b):
        raise Refused(f"elementwise inputs must have same rank, got {list(a)} and {list(b)}")
    out = []
    for x, y in zip(a, b):
        if x == y or y == 1:
            out.append(x)
        elif x == 1:
            out.append(y)
        elif x < 0 or y < 0:
            out.append(max(x, y))
        else:
            raise Refused(f"elementwise dims do not broadcast: {list(a)} and {list(b)}")
    return tuple(out)


def elementwise(net: Network, a: NetTensor, b: NetTensor, op: str) -> NetTensor:
    dims = broadcast_dims(a.dims, b.dims)
    dtype = "BOOL" if op in COMPARISONS else a.dtype
    value = None
    if a.const and b.const:
        value = evaluate(ELEMENTWISE[op], a.value, b.value, dims=dims, dtype=dtype)
    return net.emit("ELEMENTWISE", [a, b], {"op": op}, dims, dtype, value=value)


def unary(net: Network, x: NetTensor, op: str) -> NetTensor:
    dtype = "BOOL" if op in ("ISINF", "ISNAN") else x.dtype
    value = evaluate(UNARY[op], x.value, dims=x.dims, dtype=dtype) if x.const and op in UNARY else None
    return net.emit("UNARY", [x], {"op": op}, x.dims, dtype, value=value)


def activation(
    net: Network, x: NetTensor, op: str, alpha: Optional[float] = None, beta: Optional[float] = None
) -> NetTensor:
    params: Dict[str, Any] = {"op": op}
    if alpha is not None:
        params["alpha"] = alpha
    if beta is not None:
        params["beta"] = beta
    value = None
    if x.const and op == "RELU":
        value = evaluate(lambda v: np.maximum(v, 0), x.value, dims=x.dims, dtype=x.dtype)
    return net.emit("ACTIVATION", [x], params, x.dims, x.dtype, value=value)


def cast(net: Network, x: NetTensor, dtype: str) -> NetTensor:
    value = evaluate(lambda v: v, x.value, dims=x.dims, dtype=dtype) if x.const else None
    return net.emit("CAST", [x], {"to": dtype}, x.dims, dtype, value=value)


def identity(net: Network, x: NetTensor, dtype: Optional[str] = None) -> NetTensor:
    """An IDENTITY layer; with `dtype` it casts, which is how 8.6 casts in most places."""
    params: Dict[str, Any] = {"output_type_set": dtype} if dtype else {}
    to = dtype or x.dtype
    value = evaluate(lambda v: v, x.value, dims=x.dims, dtype=to) if x.const else None
    return net.emit("IDENTITY", [x], params, x.dims, to, value=value)


def select(net: Network, condition: NetTensor, then: NetTensor, otherwise: NetTensor) -> NetTensor:
    dims = broadcast_dims(broadcast_dims(condition.dims, then.dims), otherwise.dims)
    value = None
    if condition.const and then.const and otherwise.const:
        value = evaluate(np.where, condition.value, then.value, otherwise.value, dims=dims, dtype=then.dtype)
    return net.emit("SELECT", [condition, then, otherwise], {}, dims, then.dtype, value=value)


def constant(net: Network, values: Sequence[float], dtype: str, dims: Optional[Dims] = None) -> NetTensor:
    """A CONSTANT layer of the parser's own: `values` in row-major order, a vector unless `dims` says otherwise."""
    numpy_type = NUMPY_TYPES.get(dtype, np.float32)
    with np.errstate(all="ignore"):
        array = np.array(values).astype(numpy_type)
    if dims is None:
        dims = (len(values),)
    return net.constant(dims, dtype, array.reshape(dims))


def scalar(net: Network, value: float, dtype: str, dims: Dims = ()) -> NetTensor:
    """A CONSTANT of one element."""
    return constant(net, [value], dtype, dims)


def parametric_relu(net: Network, x: NetTensor, slopes: NetTensor) -> NetTensor:
    return net.emit("PARAMETRIC_RELU", [x, slopes], {}, broadcast_dims(x.dims, slopes.dims), x.dtype)
