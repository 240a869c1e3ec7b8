"""A division of a 4-D tensor by a constant as a multiplication by its reciprocal."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x, divisor = node.inputs
    shape = network.shape(x)
    if shape is None or len(shape) != 4 or network.is_constant(x):
        return None
    if not network.is_constant(divisor):
        raise Refused("a division by a tensor has no form that the DLA takes")
    network.dtype(x)
    dims = network.weight_shape(divisor)
    if network.shape(node.outputs[0]) != shape:
        return None

    def build(editor: Any) -> Any:
        return editor.op("Mul", x, editor.derived((divisor,), dims, lambda d: d.dtype.type(1) / d, "reciprocal"))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "divide-by-constant",
    ("Div",),
    match,
    (
        holds("x 1x8x4x4, w 1", "y = Div(x, w)"),
        holds("x 1x8x4x4, w 8x1x1", "y = Div(x, w)"),
        refuses("x 1x8x4x4, v 1x8x4x4", "y = Div(x, v)", "division by a tensor"),
        no_pattern("x 1x8x4x4, w 1", "y = Div(w, x)"),
        no_pattern("x 8x4, w 1", "y = Div(x, w)"),
    ),
)
