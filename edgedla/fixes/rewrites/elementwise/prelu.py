"""PRelu with one slope a channel as Relu(x) - slope Relu(-x): a strict build refuses the constant slope."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x, slope = node.inputs
    shape = network.shape(x)
    if shape is None or len(shape) != 4:
        return None
    channels = shape[1]
    network.dtype(x)
    dims = network.weight_shape(slope)
    if int(np.prod(dims)) != 1 and (1,) * (4 - len(dims)) + dims != (1, channels, 1, 1):
        raise Refused(f"slopes of shape {list(dims)}: only one number, or one per channel")

    def build(editor: Any) -> Any:
        def minus(s: np.ndarray) -> np.ndarray:
            return -np.broadcast_to(s.reshape(-1), (channels,))

        scale = editor.derived((slope,), (channels,), minus, "slope")
        below = editor.op("Relu", editor.batch_norm(x, -1.0, 0.0, channels))
        return editor.op("Add", editor.op("Relu", x), editor.batch_norm(below, scale, 0.0, channels))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "prelu",
    ("PRelu",),
    match,
    (
        holds("x 1x8x4x4, w 8x1x1", "y = PRelu(x, w)"),
        holds("x 1x8x4x4, w 1", "y = PRelu(x, w)"),
        refuses("x 1x8x4x4, w 8x4x4", "y = PRelu(x, w)", "one per channel"),
        no_pattern("x 8x4, w 4", "y = PRelu(x, w)"),
    ),
)
