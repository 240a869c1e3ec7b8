"""A gate N x C x 1 x 1 in an elementwise operation with N x C x H x W, enlarged first by a nearest Resize.

The DLA's elementwise layers want equal sizes; the enlarged gate costs memory traffic, so a cheap network may lose by it."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.limits import resize_factor
from edgedla.fixes.rewrites.numbers import stages
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    if len(node.inputs) != 2:
        return None
    shapes = [network.shape(v) for v in node.inputs]
    if any(s is None or len(s) != 4 for s in shapes) or shapes[0] == shapes[1]:
        return None
    gates = [i for i, s in enumerate(shapes) if s is not None and s[2:] == (1, 1)]
    if len(gates) != 1 or any(network.is_constant(v) for v in node.inputs):
        return None
    gate, full = node.inputs[gates[0]], node.inputs[1 - gates[0]]
    assert gate is not None
    small, large = network.nchw(gate), network.nchw(full)
    network.dtype(gate)
    if small[:2] != large[:2]:
        raise Refused(f"{gate.name} has the shape {list(small)}: only H and W may differ from {list(large)}")
    factors = stages(large[2], large[3], resize_factor())
    if factors is None:
        raise Refused(f"{large[2]} x {large[3]} has a prime factor above {resize_factor()}, the largest of a Resize")

    def build(editor: Any) -> Any:
        y = gate
        # The small factor first: what it writes is small too.
        for factor in factors[::-1]:
            y = editor.resize(y, factor)
        return editor.op(node.op_type, *((y, full) if gates[0] == 0 else (full, y)))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "channel-gate",
    ("Mul", "Add", "Sub"),
    match,
    (
        holds("x 1x8x14x14, g 1x8x1x1", "y = Mul(x, g)"),
        holds("x 2x8x56x7, g 2x8x1x1", "y = Sub(g, x)"),
        refuses("x 1x8x37x37, g 1x8x1x1", "y = Mul(x, g)", "prime factor"),
        refuses("x 2x8x4x4, g 1x8x1x1", "y = Mul(x, g)", "only H and W"),
        no_pattern("x 1x8x4x4, w 1x8x1x1", "y = Mul(x, w)"),
        no_pattern("x 1x8x4x4, g 1x8x4x1", "y = Mul(x, g)"),
    ),
)
