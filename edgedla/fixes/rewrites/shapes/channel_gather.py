"""A Gather of channels with constant indices as a 1x1 convolution of zeros and ones."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.numbers import one_hot
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x, indices = node.inputs[:2]
    shape = network.shape(x)
    if shape is None or len(shape) != 4 or network.is_constant(x) or attribute(node, "axis", 0) % 4 != 1:
        return None
    network.dtype(x)
    picked = network.constant(indices)
    if picked is None:
        raise Refused("the indices are computed at run time, or too many to read")
    if picked.ndim != 1:
        raise Refused(f"indices of {picked.ndim} dims change the rank")
    channels = shape[1]

    def build(editor: Any) -> Any:
        source = np.where(picked < 0, picked + channels, picked)
        weight = editor.constant(one_hot(len(source), channels, source)[..., None, None], network.dtype(x), "choice")
        return editor.conv(x, weight)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "channel-gather",
    ("Gather",),
    match,
    (
        holds("x 1x8x4x4", "i = Constant<value_ints = [3, 0, -1, 3]>() y = Gather<axis = 1>(x, i)"),
        refuses("x 1x8x4x4", "i = Constant<value_int = 3>() y = Gather<axis = 1>(x, i)", "change the rank"),
        no_pattern("x 1x8x4x4", "i = Constant<value_ints = [3, 0]>() y = Gather<axis = 2>(x, i)"),
    ),
)
