"""A channel shuffle (Reshape to groups, Transpose, Reshape back) as a 1x1 convolution with a permutation matrix."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.numbers import one_hot
from edgedla.fixes.rewrites.shapes.depth_to_space import turned
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern


def match(network: Network, node: Node) -> Optional[Site]:
    before = turned(network, node)
    if before is None:
        return None
    first, turn = before
    x = first.inputs[0]
    shape, grouped = network.shape(x), network.shape(turn.inputs[0])
    if shape is None or grouped is None or len(shape) != 4 or network.shape(node.outputs[0]) != shape:
        return None
    n, c, h, w = shape
    network.dtype(x)
    groups = grouped[1] if len(grouped) > 1 else 0
    pixels = grouped[3:]
    if len(grouped) < 4 or grouped[:3] != (n, groups, c // max(groups, 1)) or int(np.prod(pixels)) != h * w:
        return None
    if attribute(turn, "perm", None) != [0, 2, 1, *range(3, len(grouped))]:
        return None

    def build(editor: Any) -> Any:
        source = np.arange(c).reshape(groups, c // groups).T.reshape(-1)
        weight = editor.constant(one_hot(c, c, source)[..., None, None], network.dtype(x), "permutation")
        return editor.conv(x, weight)

    return Site(node.outputs[0], (first, turn, node), build)


REWRITE = Rewrite(
    "channel-shuffle",
    ("Reshape",),
    match,
    (
        holds(
            "x 1x12x4x4",
            "s = Constant<value_ints = [1, 2, 6, 4, 4]>() r = Reshape(x, s) "
            "t = Transpose<perm = [0, 2, 1, 3, 4]>(r) b = Constant<value_ints = [1, 12, 4, 4]>() y = Reshape(t, b)",
        ),
        holds(
            "x 2x12x4x4",
            "s = Constant<value_ints = [2, 3, 4, 16]>() r = Reshape(x, s) "
            "t = Transpose<perm = [0, 2, 1, 3]>(r) b = Constant<value_ints = [2, 12, 4, 4]>() y = Reshape(t, b)",
        ),
        no_pattern(
            "x 1x12x4x4",
            "s = Constant<value_ints = [1, 2, 6, 4, 4]>() r = Reshape(x, s) "
            "t = Transpose<perm = [0, 1, 2, 4, 3]>(r) b = Constant<value_ints = [1, 12, 4, 4]>() y = Reshape(t, b)",
        ),
        no_pattern(
            "x 1x12x4x4",
            "s = Constant<value_ints = [1, 2, 6, 4, 4]>() r = Reshape(x, s) "
            "t = Transpose<perm = [0, 2, 1, 3, 4]>(r) b = Constant<value_ints = [1, 6, 8, 4]>() y = Reshape(t, b)",
        ),
    ),
)
