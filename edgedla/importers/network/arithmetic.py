"""Layers that work element by element: elementwise, unary, activation, cast, select, constants."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

from edgedla.importers.network import evaluate, known
from edgedla.importers.network.core import Dims, NetTensor, Network
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
    if a.const and b.const and a.value is not None and b.value is not None:
        value = evaluate.elementwise(op, a.value, b.value, dims, dtype)
    return net.emit("ELEMENTWISE", [a, b], {"op": op}, dims, dtype, value=value)


def unary(net: Network, x: NetTensor, op: str) -> NetTensor:
    dtype = "BOOL" if op in ("ISINF", "ISNAN") else x.dtype
    value = evaluate.unary(op, x.value, x.dims, dtype) if x.const and x.value is not None else None
    return net.emit("UNARY", [x], {"op": op}, x.dims, dtype, value=value)


def activation(net: Network, x: NetTensor, op: str, alpha: Optional[float] = None, beta: Optional[float] = None) -> NetTensor:
    params: Dict[str, Any] = {"op": op}
    if alpha is not None:
        params["alpha"] = alpha
    if beta is not None:
        params["beta"] = beta
    value = None
    if x.const and op == "RELU" and x.value is not None:
        value = evaluate.relu(x.value, x.dims, x.dtype)
    return net.emit("ACTIVATION", [x], params, x.dims, x.dtype, value=value)


def cast(net: Network, x: NetTensor, dtype: str) -> NetTensor:
    value = evaluate.cast(x.value, x.dims, dtype) if x.const and x.value is not None else None
    return net.emit("CAST", [x], {"to": dtype}, x.dims, dtype, value=value)


def identity(net: Network, x: NetTensor, dtype: Optional[str] = None) -> NetTensor:
    """An IDENTITY layer; with `dtype` it casts, which is how 8.6 casts in most places."""
    params: Dict[str, Any] = {"output_type_set": dtype} if dtype else {}
    to = dtype or x.dtype
    value = evaluate.cast(x.value, x.dims, to) if x.const and x.value is not None else None
    return net.emit("IDENTITY", [x], params, x.dims, to, value=value)


def select(net: Network, condition: NetTensor, then: NetTensor, otherwise: NetTensor) -> NetTensor:
    dims = broadcast_dims(broadcast_dims(condition.dims, then.dims), otherwise.dims)
    value = None
    values = (condition.value, then.value, otherwise.value)
    if condition.const and then.const and otherwise.const and all(v is not None for v in values):
        value = evaluate.select(*values, dims, then.dtype)
    return net.emit("SELECT", [condition, then, otherwise], {}, dims, then.dtype, value=value)


def constant(net: Network, values: Sequence[float], dtype: str, dims: Optional[Dims] = None) -> NetTensor:
    """A CONSTANT layer of the parser's own: `values` in row-major order, a vector unless `dims` says otherwise."""
    if dims is None:
        dims = (len(values),)
    return net.constant(dims, dtype, known.of_numbers(values, dtype, dims))


def scalar(net: Network, value: float, dtype: str, dims: Dims = ()) -> NetTensor:
    """A CONSTANT of one element."""
    return constant(net, [value], dtype, dims)


def parametric_relu(net: Network, x: NetTensor, slopes: NetTensor) -> NetTensor:
    return net.emit("PARAMETRIC_RELU", [x, slopes], {}, broadcast_dims(x.dims, slopes.dims), x.dtype)
