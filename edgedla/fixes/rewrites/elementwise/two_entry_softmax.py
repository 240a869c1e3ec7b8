"""A Softmax over two channels as Sigmoid of their difference, which one 1x1 convolution takes both ways."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x = node.inputs[0]
    shape = network.shape(x)
    if shape is None or len(shape) != 4:
        return None
    flattens = network.opset < 13
    axis = attribute(node, "axis", 1 if flattens else -1) % 4
    if shape[axis] != 2 and not flattens:
        return None
    dtype = network.dtype(x)
    if flattens and shape[axis:] != (2, 1, 1):
        # Before opset 13 it runs over the axis and all behind it.
        return None
    if axis != 1:
        raise Refused(f"it runs over axis {axis}; the difference is taken over channels")

    def build(editor: Any) -> Any:
        weight = editor.constant([[[[1.0]], [[-1.0]]], [[[-1.0]], [[1.0]]]], dtype, "difference")
        return editor.op("Sigmoid", editor.conv(x, weight))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "two-entry-softmax",
    ("Softmax",),
    match,
    (
        holds("x 1x2x4x4", "y = Softmax<axis = 1>(x)"),
        holds("x 2x2x1x1", "y = Softmax<axis = 1>(x)", opset=11),
        refuses("x 1x8x4x2", "y = Softmax(x)", "axis 3"),
        no_pattern("x 1x3x4x4", "y = Softmax<axis = 1>(x)"),
        no_pattern("x 1x2x4x4", "y = Softmax<axis = 1>(x)", opset=11),
    ),
)
