"""Layers with weights or windows: convolution, pooling, matrix products, reductions, normalisation, resize, plugins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from edgedla.importers.network import evaluate
from edgedla.importers.network.arithmetic import broadcast_dims
from edgedla.importers.network.core import Dims, NetTensor, Network
from edgedla.importers.refuse import Refused


@dataclass
class Window:
    """Kernel attributes of one node, one entry for each spatial axis."""

    kernel: List[int]
    stride: List[int]
    pre: List[int]
    post: List[int]
    dilation: List[int]
    output_padding: List[int]
    mode: str = "EXPLICIT_ROUND_DOWN"
    excludes_padding: bool = True


def window_out(size: int, kernel: int, stride: int, pre: int, post: int, dilation: int, mode: str) -> int:
    """Output size along one axis of a convolution or pooling.

    EXPLICIT_ROUND_DOWN: floor((size + pre + post - (dilation * (kernel - 1) + 1)) / stride) + 1; EXPLICIT_ROUND_UP:
    the same with ceil; SAME_*: ceil(size / stride) (TensorRT's PaddingMode documentation).
    """
    if size < 0:
        return -1
    if stride <= 0:
        raise Refused(f"stride {stride} is not positive")
    if mode.startswith("SAME"):
        return -(-size // stride)
    room = size + pre + post - (dilation * (kernel - 1) + 1)
    if room < 0:
        raise Refused(f"the window {kernel} (dilation {dilation}) is larger than the padded input {size + pre + post}")
    return (-(-room // stride) if mode == "EXPLICIT_ROUND_UP" else room // stride) + 1


def transposed_out(size: int, kernel: int, stride: int, pre: int, post: int, dilation: int, mode: str) -> int:
    """Output size along one axis of a deconvolution: (size - 1) * stride + window - pre - post; SAME_*: size * stride."""
    if size < 0:
        return -1
    if mode.startswith("SAME"):
        return size * stride
    out = (size - 1) * stride + dilation * (kernel - 1) + 1 - pre - post
    if out < 0:
        raise Refused(f"deconvolution output size {out} is negative")
    return out


def convolution(
    net: Network,
    inputs: List[Optional[NetTensor]],
    out_channels: int,
    w: Window,
    groups: int,
    kernel_weights: Optional[Sequence[int]],
    has_bias: bool,
    transposed: bool = False,
) -> NetTensor:
    """CONVOLUTION or, `transposed`, DECONVOLUTION. `kernel_weights`: dims of build-time weights, None where they are input 1."""
    x = inputs[0]
    assert x is not None
    out_size, layer_type = (transposed_out, "DECONVOLUTION") if transposed else (window_out, "CONVOLUTION")
    spatial = tuple(map(out_size, x.dims[2:], w.kernel, w.stride, w.pre, w.post, w.dilation, [w.mode] * len(w.kernel)))
    params = {
        "nb_output_maps": out_channels,
        "kernel": list(w.kernel),
        "stride": list(w.stride),
        "dilation": list(w.dilation),
        "pre_padding": list(w.pre),
        "post_padding": list(w.post),
        "padding_mode": w.mode,
        "groups": groups,
        "kernel_weights": None if kernel_weights is None else list(kernel_weights),
        "bias_weights": True if has_bias else None,
    }
    while inputs[-1] is None:
        inputs.pop()
    return net.emit(layer_type, inputs, params, (x.dims[0], out_channels, *spatial), x.dtype)


def pooling(net: Network, x: NetTensor, op: str, w: Window) -> NetTensor:
    first = len(x.dims) - len(w.kernel)
    if first < 1:
        raise Refused(f"a pooling window of {len(w.kernel)} axes does not fit an input of rank {len(x.dims)}")
    ones = [1] * len(w.kernel)
    spatial = tuple(map(window_out, x.dims[first:], w.kernel, w.stride, w.pre, w.post, ones, [w.mode] * len(ones)))
    params = {
        "op": op,
        "window": list(w.kernel),
        "stride": list(w.stride),
        "pre_padding": list(w.pre),
        "post_padding": list(w.post),
        "padding_mode": w.mode,
        "average_count_excludes_padding": w.excludes_padding,
    }
    return net.emit("POOLING", [x], params, x.dims[:first] + spatial, x.dtype)


def scale(net: Network, x: NetTensor, mode: str = "CHANNEL", channel_axis: int = 1) -> NetTensor:
    params = {"mode": mode, "channel_axis": channel_axis, "shift": True, "scale": True, "power": None}
    return net.emit("SCALE", [x], params, x.dims, x.dtype)


def _matrix(dims: Dims, op: str) -> Tuple[int, int]:
    """(rows, columns) as the product sees them; a vector counts as one row or column by its side."""
    if op == "TRANSPOSE":
        return dims[-1], dims[-2]
    return dims[-2], dims[-1]


def matrix_multiply(net: Network, a: NetTensor, op0: str, b: NetTensor, op1: str) -> NetTensor:
    batch_a = a.dims[:-1] if op0 == "VECTOR" else a.dims[:-2]
    batch_b = b.dims[:-1] if op1 == "VECTOR" else b.dims[:-2]
    batch = broadcast_dims(batch_a, batch_b)
    rows, inner_a = (None, a.dims[-1]) if op0 == "VECTOR" else _matrix(a.dims, op0)
    inner_b, columns = (b.dims[-1], None) if op1 == "VECTOR" else _matrix(b.dims, op1)
    if inner_a >= 0 and inner_b >= 0 and inner_a != inner_b:
        raise Refused(f"dimension of input0 {list(a.dims)} and dimension of input1 {list(b.dims)} do not fit a matrix product")
    dims = batch + tuple(d for d in (rows, columns) if d is not None)
    return net.emit("MATRIX_MULTIPLY", [a, b], {"op0": op0, "op1": op1}, dims, a.dtype)


def reduce(net: Network, x: NetTensor, op: str, axes: Sequence[int], keep_dims: bool) -> NetTensor:
    """`axes`: non-negative, without repeats."""
    sorted_axes = sorted(set(axes))
    if not sorted_axes:
        raise Refused(f"Reduce axes mask 0 invalid for rank {len(x.dims)}")
    if sorted_axes[-1] >= len(x.dims):
        raise Refused(f"Reduce axes {sorted_axes} invalid for rank {len(x.dims)}")
    if keep_dims:
        dims = tuple(1 if i in sorted_axes else d for i, d in enumerate(x.dims))
    else:
        dims = tuple(d for i, d in enumerate(x.dims) if i not in sorted_axes)
    value = None
    if x.value is not None:
        value = evaluate.reduce(op, x.value, sorted_axes, keep_dims, dims, x.dtype)
    params = {"op": op, "axes": sorted_axes, "keep_dims": keep_dims}
    return net.emit("REDUCE", [x], params, dims, x.dtype, value=value)


def softmax(net: Network, x: NetTensor, axis: int) -> NetTensor:
    return net.emit("SOFTMAX", [x], {"axes": [axis]}, x.dims, x.dtype)


def lrn(net: Network, x: NetTensor, window: int, alpha: float, beta: float, k: float) -> NetTensor:
    return net.emit("LRN", [x], {"window": window, "alpha": alpha, "beta": beta, "k": k}, x.dims, x.dtype)


def normalization(
    net: Network,
    x: NetTensor,
    scale_tensor: NetTensor,
    bias: NetTensor,
    axes: Sequence[int],
    epsilon: float,
    groups: int = 1,
    compute_precision: Optional[str] = None,
) -> NetTensor:
    params: Dict[str, Any] = {"epsilon": epsilon, "axes": list(axes), "groups": groups}
    if compute_precision:
        params["compute_precision"] = compute_precision
    return net.emit("NORMALIZATION", [x, scale_tensor, bias], params, x.dims, x.dtype)


def einsum(net: Network, inputs: Sequence[NetTensor], equation: str) -> NetTensor:
    """EINSUM of lower-case letters, no ellipsis; without "->" the output holds the letters that occur once, sorted."""
    inputs_text, arrow, right = equation.replace(" ", "").partition("->")
    terms = inputs_text.split(",")
    if len(terms) != len(inputs):
        raise Refused(f"Einsum equation {equation!r} does not fit {len(inputs)} inputs")
    sizes: Dict[str, int] = {}
    for term, t in zip(terms, inputs):
        if len(term) != len(t.dims):
            raise Refused(f"Einsum term {term!r} does not fit an input of rank {len(t.dims)}")
        for letter, d in zip(term, t.dims):
            if sizes.get(letter, 1) in (1, -1):
                sizes[letter] = d
    if not arrow:
        right = "".join(sorted(c for c in sizes if inputs_text.count(c) == 1))
    if any(c not in sizes for c in right):
        raise Refused(f"Einsum equation {equation!r}: an output letter is in no input")
    dims = tuple(sizes[c] for c in right)
    return net.emit("EINSUM", list(inputs), {"equation": equation}, dims, inputs[0].dtype)


def grid_sample(net: Network, x: NetTensor, grid: NetTensor, mode: str, align_corners: bool, sample_mode: str) -> NetTensor:
    dims = x.dims[:2] + grid.dims[1:-1]
    params = {"mode": mode, "align_corners": align_corners, "sample_mode": sample_mode}
    return net.emit("GRID_SAMPLE", [x, grid], params, dims, x.dtype)


def qdq(
    net: Network,
    layer_type: str,
    x: NetTensor,
    scale_tensor: NetTensor,
    zero: Optional[NetTensor],
    axis: int,
    dtype: str,
    params: Dict[str, Any],
) -> NetTensor:
    """A QUANTIZE or a DEQUANTIZE layer."""
    inputs: List[Optional[NetTensor]] = [x, scale_tensor]
    if zero is not None:
        inputs.append(zero)
    return net.emit(layer_type, inputs, {"axis": axis, **params}, x.dims, dtype)


def nms(net: Network, inputs: List[Optional[NetTensor]], box_format: str) -> List[NetTensor]:
    while inputs[-1] is None:
        inputs.pop()
    params = {"box_format": box_format, "topk_box_limit": -1}
    return net.emit_many("NMS", inputs, params, [((-1, 3), "INT32"), ((), "INT32")])


def plugin(
    net: Network, inputs: Sequence[NetTensor], name: str, version: str, api: str, fields: Dict[str, Any], dims: Dims
) -> NetTensor:
    params = {"plugin": name, "version": version, "api": api, "fields": fields}
    return net.emit(f"PLUGIN_{api}", list(inputs), params, dims, inputs[0].dtype, always_live=True)
