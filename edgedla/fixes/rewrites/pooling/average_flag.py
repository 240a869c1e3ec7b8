"""count_include_pad on an AveragePool without padding: the numbers stay, and Xavier's support is no longer unknown."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.pooling.average_patterns import average_of
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    if network.goal.chip != "xavier":
        return None
    average = average_of(network, node)
    if average is None or any(average.pads) or average.inclusive:
        return None

    def build(editor: Any) -> Any:
        return editor.op("AveragePool", node.inputs[0], kernel_shape=average.kernel, strides=average.strides, count_include_pad=1)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "average-flag",
    ("AveragePool",),
    match,
    (
        holds("x 1x8x8x8", "y = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x)", chip="xavier"),
        refuses(
            "x 1x8x7x7", "y = AveragePool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(x)", "ceil_mode", chip="xavier"
        ),
        no_pattern("x 1x8x8x8", "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)", chip="xavier"),
        no_pattern("x 1x8x8x8", "y = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x)"),
    ),
)
