"""The second, third or fourth power as products."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x, exponent = node.inputs
    shape = network.shape(x)
    if shape is None or len(shape) != 4 or network.is_constant(x):
        return None
    network.dtype(x)
    constant = network.constant(exponent)
    if constant is None or constant.size != 1:
        raise Refused("the exponent is not one constant number")
    power = float(constant.reshape(-1)[0])
    if power not in (2.0, 3.0, 4.0):
        raise Refused(f"the exponent is {power:g}; products make 2, 3 and 4")

    def build(editor: Any) -> Any:
        square = editor.op("Mul", x, x)
        return square if power == 2 else editor.op("Mul", square, x if power == 3 else square)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "integer-power",
    ("Pow",),
    match,
    (
        holds("x 1x8x4x4", "p = Constant<value_float = 2.0>() y = Pow(x, p)"),
        holds("x 1x8x4x4", "p = Constant<value_floats = [3.0]>() y = Pow(x, p)"),
        holds("x 1x8x4x4", "p = Constant<value_float = 4.0>() y = Pow(x, p)"),
        refuses("x 1x8x4x4", "p = Constant<value_float = 0.5>() y = Pow(x, p)", "0.5"),
        no_pattern("x 8x4", "p = Constant<value_float = 2.0>() y = Pow(x, p)"),
    ),
)
