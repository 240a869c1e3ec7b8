"""A mean or sum over the channels as a 1x1 convolution to one channel."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.pooling.patterns import reduce_axes
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x = node.inputs[0]
    shape = network.shape(x)
    if shape is None or len(shape) != 4 or reduce_axes(network, node, 4) != (1,):
        return None
    network.dtype(x)
    if not attribute(node, "keepdims", 1):
        raise Refused("it drops the channel dim: keep it with keepdims=1")
    channels = shape[1]

    def build(editor: Any) -> Any:
        each = 1.0 / channels if node.op_type == "ReduceMean" else 1.0
        return editor.conv(x, editor.constant(np.full((1, channels, 1, 1), each), network.dtype(x), "each"))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "channel-mean",
    ("ReduceMean", "ReduceSum"),
    match,
    (
        holds("x 1x8x4x5", "y = ReduceMean<axes = [1]>(x)"),
        holds("x 2x8x4x5", "a = Constant<value_ints = [-3]>() y = ReduceSum(x, a)"),
        refuses("x 1x8x4x5", "y = ReduceMean<axes = [1], keepdims = 0>(x)", "keepdims"),
        no_pattern("x 1x8x4x5", "y = ReduceMean<axes = [1, 2]>(x)"),
    ),
)
