"""SpaceToDepth as a one-hot convolution, kernel = stride = block."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.limits import conv_stride
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

#: Elements of the one-hot weights: larger ones are most of a model that had none.
MOST_ELEMENTS = 1 << 24


def match(network: Network, node: Node) -> Optional[Site]:
    x = node.inputs[0]
    block = attribute(node, "blocksize", 1)
    _, c, _, _ = network.nchw(x)
    network.dtype(x)
    if block == 1:
        return None
    if block > conv_stride():
        raise Refused(f"a block of {block} is above {conv_stride()}, the largest stride of a convolution")
    if c * c * block**4 > MOST_ELEMENTS:
        raise Refused(f"one-hot weights of {c} channels are too many")

    def build(editor: Any) -> Any:
        weight = np.zeros((c * block * block, c, block, block))
        for k in range(len(weight)):
            place, channel = divmod(k, c)
            weight[k, channel, place // block, place % block] = 1.0
        return editor.conv(x, editor.constant(weight, network.dtype(x), "places"), strides=[block, block])

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "space-to-depth",
    ("SpaceToDepth",),
    match,
    (
        holds("x 1x3x8x6", "y = SpaceToDepth<blocksize = 2>(x)"),
        holds("x 2x2x9x9", "y = SpaceToDepth<blocksize = 3>(x)"),
        refuses("x 1x1x9x9", "y = SpaceToDepth<blocksize = 9>(x)", "largest stride"),
        no_pattern("x 1x3x8x6", "y = SpaceToDepth<blocksize = 1>(x)"),
    ),
)
