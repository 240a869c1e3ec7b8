"""A global average as one depthwise convolution with weights 1/(HW): any map up to the largest kernel, one layer.

In INT8 it keeps the mean's own scale, where a pooling shares the scale of its input (49.6 against 31.7 dB)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.limits import kernel
from edgedla.fixes.rewrites.pooling.patterns import over_height_and_width, with_shape
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    average = over_height_and_width(network, node)
    if average is None:
        return None
    x, (_, c, h, w), shape = average
    if max(h, w) > kernel():
        raise Refused(f"{h} x {w} is above {kernel()}, the largest kernel of a convolution")

    def build(editor: Any) -> Any:
        weight = editor.constant(np.full((c, 1, h, w), 1.0 / (h * w)), network.dtype(x), "mean")
        return with_shape(editor, editor.conv(x, weight, group=c), shape)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "global-average-conv",
    ("GlobalAveragePool", "ReduceMean"),
    match,
    (
        holds("x 1x8x13x13", "y = GlobalAveragePool(x)"),
        holds("x 2x8x3x32", "y = ReduceMean<axes = [2, 3], keepdims = 0>(x)"),
        refuses("x 1x8x33x4", "y = GlobalAveragePool(x)", "largest kernel"),
        no_pattern("x 1x8x7x7", "y = ReduceMean<axes = [2]>(x)"),
    ),
)
