"""A dense layer after a Flatten as a convolution over the whole map, followed by the reshape.

Activations between two dense layers move in front of the reshape, so that a chain of them stays 4-D."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.limits import kernel
from edgedla.fixes.rewrites.shapes.patterns import behind_flatten, replayed
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    flattened = behind_flatten(network, node.inputs[0])
    if flattened is None:
        return None
    x, between = flattened
    n, c, h, w = network.nchw(x)
    network.dtype(x)
    if max(h, w) > kernel():
        raise Refused(f"the map is {h} x {w}, above {kernel()}, the largest kernel of a convolution")
    weight = node.inputs[1]
    transposed, alpha, beta = False, 1.0, 1.0
    if node.op_type == "Gemm":
        transposed = bool(attribute(node, "transB", 0))
        alpha, beta = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
        if attribute(node, "transA", 0):
            raise Refused("transA reads the batch as channels")
    dims = network.weight_shape(weight)
    if len(dims) != 2:
        raise Refused(f"its weights have {len(dims)} dims")
    channels = dims[0] if transposed else dims[1]
    nodes, output, bias = _bias(network, node, channels)

    def build(editor: Any) -> Any:
        kernels = (channels, c, h, w)
        if transposed and alpha == 1.0:
            weights = editor.reshaped(weight, kernels, "weight")
        else:
            weights = editor.derived(
                (weight,), kernels, lambda m: (m if transposed else m.T).reshape(kernels) * m.dtype.type(alpha), "weight"
            )
        added = None
        if bias is not None:
            added = editor.derived(
                (bias,), (channels,), lambda b: np.broadcast_to(b.reshape(-1), (channels,)) * b.dtype.type(beta), "bias"
            )
        y = editor.conv(replayed(editor, between, x), weights, added)
        return editor.reshape(y, (n, channels))

    return Site(output, (*between, *nodes), build)


def _bias(network: Network, node: Node, channels: int) -> Tuple[List[Any], Any, Optional[Any]]:
    """(nodes, output, bias) of the dense layer: the third input of a Gemm, or an Add after a MatMul."""
    output = node.outputs[0]
    if node.op_type == "Gemm":
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is not None:
            _check_bias(network.weight_shape(bias), channels)
        return [node], output, bias
    reader = network.only_reader(output)
    if reader is None or reader.op_type != "Add":
        return [node], output, None
    other = reader.inputs[1] if reader.inputs[0] is output else reader.inputs[0]
    if not network.is_constant(other) or network.weight_shape(other) not in ((channels,), (1, channels)):
        return [node], output, None
    return [node, reader], reader.outputs[0], other


def _check_bias(dims: Tuple[int, ...], channels: int) -> None:
    if dims not in ((), (1,), (channels,), (1, channels), (1, 1)):
        raise Refused(f"its bias has the shape {list(dims)}, a convolution adds one number per channel")


REWRITE = Rewrite(
    "dense-to-conv",
    ("Gemm", "MatMul"),
    match,
    (
        holds("x 1x8x7x7, w 10x392, wb 10", "f = Flatten(x) y = Gemm<transB = 1>(f, w, wb)"),
        holds("x 2x8x1x1, w 8x10", "f = Flatten(x) r = Relu(f) y = MatMul(r, w)"),
        holds("x 2x8x2x2, w 32x10, wb 10", "f = Flatten(x) y = Gemm<alpha = 0.5, beta = 2.0>(f, w, wb)"),
        holds("x 2x8x2x2, w 32x10, wb 10", "f = Flatten(x) m = MatMul(f, w) y = Add(wb, m)"),
        refuses("x 1x8x33x1, w 264x10", "f = Flatten(x) y = MatMul(f, w)", "largest kernel"),
        refuses("x 1x8x1x1, v 8x10", "f = Flatten(x) y = MatMul(f, v)", "not a constant"),
        refuses("x 4x4x1x1, w 4x10", "f = Flatten(x) y = Gemm<transA = 1>(f, w)", "transA"),
        no_pattern("x 1x8, w 8x10", "y = MatMul(x, w)"),
    ),
)
