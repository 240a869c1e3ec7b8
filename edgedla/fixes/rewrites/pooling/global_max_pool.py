"""A global maximum as a chain of MaxPool; TensorRT 10 takes it as it is."""

from __future__ import annotations

from typing import Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.pooling.patterns import pooling_chain
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern, refuses

#: First release whose DLA takes a maximum over H and W.
FIRST_WITHOUT_NEED = (10,)


def match(network: Network, node: Node) -> Optional[Site]:
    if network.goal.trt >= FIRST_WITHOUT_NEED:
        return None
    return pooling_chain(network, node, "MaxPool")


REWRITE = Rewrite(
    "global-max-pool",
    ("GlobalMaxPool", "ReduceMax"),
    match,
    (
        holds("x 1x8x14x14", "y = GlobalMaxPool(x)", trt=(8, 5)),
        holds("x 1x8x6x28", "y = ReduceMax<axes = [2, 3], keepdims = 0>(x)", trt=(8, 5)),
        refuses("x 1x8x11x14", "y = GlobalMaxPool(x)", "prime factor", trt=(8, 5)),
        no_pattern("x 1x8x14x14", "y = GlobalMaxPool(x)"),
        no_pattern("x 1x8x14x14", "y = ReduceMax<axes = [1]>(x)", trt=(8, 5)),
    ),
)
