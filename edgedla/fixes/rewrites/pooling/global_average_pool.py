"""A global average as a chain of average poolings, each within the DLA's window: 14 x 14 is 7 x 7, then 2 x 2."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.limits import pooling_window
from edgedla.fixes.rewrites.numbers import stages
from edgedla.fixes.rewrites.pooling.patterns import over_height_and_width, with_shape
from edgedla.fixes.site import Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Any) -> Optional[Site]:
    found = over_height_and_width(network, node)
    if found is None:
        return None
    x, (_, _, h, w), shape = found
    windows = stages(h, w, pooling_window())
    if windows is None:
        raise Refused(f"{h} x {w} has a prime factor above {pooling_window()}, the largest window of a pooling")

    def build(editor: Any) -> Any:
        y = x
        for window in windows:
            # The flag is without effect where nothing is padded, but on Xavier its absence makes support unknown.
            y = editor.op("AveragePool", y, kernel_shape=window, strides=window, count_include_pad=1)
        return with_shape(editor, y, shape)

    return Site(node.outputs[0], (node,), build) if windows else None


REWRITE = Rewrite(
    "global-average-pool",
    ("GlobalAveragePool", "ReduceMean"),
    match,
    (
        holds("x 1x8x14x14", "y = GlobalAveragePool(x)"),
        holds("x 2x8x56x7", "y = ReduceMean<axes = [2, 3], keepdims = 0>(x)"),
        holds("x 1x8x7x7", "y = ReduceMean<axes = [-1, -2]>(x)", opset=11),
        refuses("x 1x8x13x13", "y = GlobalAveragePool(x)", "prime factor"),
        no_pattern("x 1x8x7x7", "y = ReduceMean<axes = [1]>(x)"),
        no_pattern("x 1x8x7", "y = GlobalAveragePool(x)"),
    ),
)
