"""A global average as a chain of average poolings, each within the DLA's window: 14 x 14 is 7 x 7, then 2 x 2."""

from __future__ import annotations

from typing import Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.pooling.patterns import pooling_chain
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    # The flag is without effect where nothing is padded, but on Xavier its absence makes support unknown.
    return pooling_chain(network, node, "AveragePool", count_include_pad=1)


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
