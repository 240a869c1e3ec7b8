"""Mish, x tanh(softplus x), as x sigmoid(x + relu(0.35 x + 0.6)). Largest error 0.022."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern

SLOPE, OFFSET = 0.35, 0.6


def match(network: Network, node: Node) -> Optional[Site]:
    nodes: Tuple[Any, ...] = (node,)
    if node.op_type == "Mish":
        x = node.inputs[0]
    else:
        tanh = [n for n in (network.producer(v, "Tanh") for v in node.inputs) if n is not None]
        soft = network.producer(tanh[0].inputs[0], "Softplus") if tanh else None
        if soft is None or not any(v is soft.inputs[0] for v in node.inputs):
            return None
        x, nodes = soft.inputs[0], (soft, tanh[0], node)
    _, channels, _, _ = network.nchw(x)
    network.dtype(x)

    def build(editor: Any) -> Any:
        bend = editor.op("Relu", editor.batch_norm(x, SLOPE, OFFSET, channels))
        return editor.op("Mul", x, editor.op("Sigmoid", editor.op("Add", x, bend)))

    return Site(node.outputs[0], nodes, build)


REWRITE = Rewrite(
    "mish",
    ("Mish", "Mul"),
    match,
    (
        holds("x 1x8x4x4", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)"),
        holds("x 1x8x4x4", "y = Mish(x)", opset=18),
        no_pattern("x 1x8x4x4", "t = Tanh(x) y = Mul(x, t)"),
        no_pattern("x 1x8x4x4, v 1x8x4x4", "s = Softplus(v) t = Tanh(s) y = Mul(x, t)"),
    ),
)
