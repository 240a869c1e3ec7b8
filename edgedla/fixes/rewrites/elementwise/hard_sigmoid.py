"""HardSigmoid and HardSwish as BatchNormalization (a x + b), Clip(0, 1), and a Mul for HardSwish.

As Mul and Add of constants it would run in a hybrid build and fail a strict one, which refuses CONSTANT layers."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Rewrite, Site, holds, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x = node.inputs[0]
    _, channels, _, _ = network.nchw(x)
    network.dtype(x)
    swish = node.op_type == "HardSwish"
    alpha = 1 / 6 if swish else attribute(node, "alpha", 0.2)
    beta = 0.5 if swish else attribute(node, "beta", 0.5)

    def build(editor: Any) -> Any:
        gate = editor.clip(editor.batch_norm(x, alpha, beta, channels), 0.0, 1.0)
        return editor.op("Mul", x, gate) if swish else gate

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "hard-sigmoid",
    ("HardSigmoid", "HardSwish"),
    match,
    (
        holds("x 1x8x4x4", "y = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x)"),
        holds("x 1x8x4x4", "y = HardSigmoid(x)", opset=11),
        holds("x 1x8x4x4", "y = HardSwish(x)", opset=14),
        refuses("x 1x8", "y = HardSigmoid(x)", "2 dims"),
    ),
)
