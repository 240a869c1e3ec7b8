"""An AveragePool with a window above the DLA's as a depthwise convolution of equal weights."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.limits import conv_stride, kernel, pooling_window
from edgedla.fixes.rewrites.pooling.average_patterns import average_of
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    average = average_of(network, node)
    if average is None or max(average.kernel) <= pooling_window():
        return None
    if any(average.pads) and not average.inclusive:
        raise Refused("its divisor leaves the padding out")
    if max(average.kernel) > kernel():
        raise Refused(f"a window of {average.kernel} is above {kernel()}, the largest kernel of a convolution")
    x = node.inputs[0]
    _, c, h, w = network.nchw(x)
    # A window as large as the padded map gives one element, whatever the stride says.
    sides = (h + average.pads[0] + average.pads[2], w + average.pads[1] + average.pads[3])
    strides = [1 if n == k else s for n, k, s in zip(sides, average.kernel, average.strides)]
    if max(strides) > conv_stride():
        raise Refused(f"a stride of {strides} is above {conv_stride()}")
    kh, kw = average.kernel

    def build(editor: Any) -> Any:
        weight = editor.constant(np.full((c, 1, kh, kw), 1.0 / (kh * kw)), network.dtype(x), "mean")
        return editor.conv(x, weight, group=c, strides=strides, pads=average.pads)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "average-conv",
    ("AveragePool",),
    match,
    (
        holds("x 1x8x20x20", "y = AveragePool<kernel_shape = [10, 10]>(x)"),
        holds(
            "x 1x8x20x20",
            "y = AveragePool<kernel_shape = [9, 3], pads = [4, 1, 4, 1], count_include_pad = 1, strides = [2, 1]>(x)",
        ),
        holds("x 1x8x16x16", "y = AveragePool<kernel_shape = [16, 16], strides = [16, 16]>(x)"),
        refuses("x 1x8x20x20", "y = AveragePool<kernel_shape = [9, 9], pads = [4, 4, 4, 4]>(x)", "padding out"),
        refuses("x 1x8x40x40", "y = AveragePool<kernel_shape = [33, 3]>(x)", "largest kernel"),
        holds("x 1x8x40x40", "y = AveragePool<kernel_shape = [9, 9], strides = [8, 8]>(x)"),
        refuses("x 1x8x40x40", "y = AveragePool<kernel_shape = [9, 9], strides = [9, 1]>(x)", "a stride of"),
        no_pattern("x 1x8x20x20", "y = AveragePool<kernel_shape = [8, 8]>(x)"),
    ),
)
