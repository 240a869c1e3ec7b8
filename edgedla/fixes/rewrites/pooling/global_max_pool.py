"""A global maximum as a chain of MaxPool; TensorRT 10 takes it as it is."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.limits import pooling_window
from edgedla.fixes.rewrites.numbers import stages
from edgedla.fixes.rewrites.pooling.patterns import over_height_and_width, with_shape
from edgedla.fixes.site import Refused, Rewrite, Site, holds, no_pattern, refuses

#: First release whose DLA takes a maximum over H and W.
FIRST_WITHOUT_NEED = (10,)


def match(network: Network, node: Any) -> Optional[Site]:
    if network.goal.trt >= FIRST_WITHOUT_NEED:
        return None
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
            y = editor.op("MaxPool", y, kernel_shape=window, strides=window)
        return with_shape(editor, y, shape)

    return Site(node.outputs[0], (node,), build) if windows else None


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
