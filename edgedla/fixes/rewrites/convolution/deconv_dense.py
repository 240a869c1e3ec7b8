"""A ConvTranspose with groups or a dilation as one without: zeros in the weights where nothing was."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.convolution.patterns import window_of
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

#: Dense weights above this many elements would dwarf the network.
MOST_ELEMENTS = 1 << 24


def match(network: Network, node: Node) -> Optional[Site]:
    window = window_of(network, node)
    if window is None or (window.group == 1 and window.dilations == [1, 1]):
        return None
    if attribute(node, "output_shape", None):
        raise Refused("it names its output's size instead of its padding")
    extra = attribute(node, "output_padding", [0, 0])
    if any(e >= s for e, s in zip(extra, window.strides)):
        raise Refused(f"output_padding {extra} is legal beside its dilation only")
    c, per_group = window.weights[:2]
    out = per_group * window.group
    kernel = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations)]
    dims = (c, out, *kernel)
    if int(np.prod(dims)) > MOST_ELEMENTS:
        raise Refused(f"dense weights of {'x'.join(map(str, dims))} are too many")
    x, weight = node.inputs[:2]
    rows, columns = window.dilations

    def spread(m: np.ndarray) -> np.ndarray:
        dense = np.zeros(dims, m.dtype)
        size = c // window.group
        for g in range(window.group):
            inputs, outputs = slice(g * size, (g + 1) * size), slice(g * per_group, (g + 1) * per_group)
            dense[inputs, outputs, ::rows, ::columns] = m[inputs]
        return dense

    def build(editor: Any) -> Any:
        weights = editor.derived((weight,), dims, spread, "weight")
        added = [] if window.bias is None else [window.bias]
        return editor.op(
            "ConvTranspose",
            x,
            weights,
            *added,
            kernel_shape=kernel,
            strides=window.strides,
            pads=window.pads,
            output_padding=extra,
        )

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "deconv-dense",
    ("ConvTranspose",),
    match,
    (
        holds("x 1x8x4x5, w 8x1x2x2", "y = ConvTranspose<strides = [2, 2], group = 8>(x, w)"),
        holds(
            "x 1x6x4x5, w 6x4x3x3, wb 8",
            "y = ConvTranspose<strides = [2, 2], group = 2, dilations = [2, 1], pads = [1, 1, 1, 1]>(x, w, wb)",
        ),
        refuses(
            "x 1x8x4x5, w 8x1x2x2",
            "y = ConvTranspose<strides = [2, 2], group = 8, output_shape = [8, 10]>(x, w)",
            "output's size",
        ),
        no_pattern("x 1x8x4x5, w 8x4x2x2", "y = ConvTranspose<strides = [2, 2]>(x, w)"),
    ),
)
