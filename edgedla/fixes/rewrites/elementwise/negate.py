"""Neg as a multiplication by -1."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern


def match(network: Network, node: Node) -> Optional[Site]:
    x = node.inputs[0]
    shape = network.shape(x)
    if shape is None or len(shape) != 4:
        return None
    dtype = network.dtype(x)

    def build(editor: Any) -> Any:
        return editor.op("Mul", x, editor.constant([[[[-1.0]]]], dtype, "minus"))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite("negate", ("Neg",), match, (holds("x 1x8x4x4", "y = Neg(x)"), no_pattern("x 8x4", "y = Neg(x)")))
