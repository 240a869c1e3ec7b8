"""LeakyRelu on TensorRT 7 as Max(x, a x)."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

#: First release whose DLA takes a LeakyReLU.
FIRST_WITHOUT_NEED = (8,)


def match(network: Network, node: Node) -> Optional[Site]:
    if network.goal.trt >= FIRST_WITHOUT_NEED:
        return None
    x = node.inputs[0]
    _, channels, _, _ = network.nchw(x)
    network.dtype(x)
    alpha = attribute(node, "alpha", 0.01)
    if not 0.0 <= alpha <= 1.0:
        raise Refused(f"the slope is {alpha:g}; it equals the larger of x and a x only from 0 to 1")

    def build(editor: Any) -> Any:
        return editor.op("Max", x, editor.batch_norm(x, alpha, 0.0, channels))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "leaky-relu",
    ("LeakyRelu",),
    match,
    (
        holds("x 1x8x4x4", "y = LeakyRelu<alpha = 0.1>(x)", trt=(7, 1)),
        refuses("x 1x8x4x4", "y = LeakyRelu<alpha = -0.5>(x)", "slope", trt=(7, 1)),
        no_pattern("x 1x8x4x4", "y = LeakyRelu<alpha = 0.1>(x)"),
    ),
)
