"""A gate N x 1 x H x W in an elementwise operation with N x C x H x W, copied to C channels by a 1x1 convolution of ones."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    if len(node.inputs) != 2 or any(network.is_constant(v) for v in node.inputs):
        return None
    shapes = [network.shape(v) for v in node.inputs]
    gates = [i for i, s in enumerate(shapes) if s is not None and len(s) == 4 and s[1] == 1 and s[2:] != (1, 1)]
    if len(gates) != 1 or any(s is None or len(s) != 4 for s in shapes):
        return None
    gate, full = node.inputs[gates[0]], node.inputs[1 - gates[0]]
    assert gate is not None
    small, large = network.nchw(gate), network.nchw(full)
    if large[1] == 1 or large[2:] == (1, 1):
        return None
    network.dtype(gate)
    if (small[0], *small[2:]) != (large[0], *large[2:]):
        raise Refused(f"{gate.name} has the shape {list(small)}: only the channels may differ from {list(large)}")

    def build(editor: Any) -> Any:
        copies = editor.conv(gate, editor.constant(np.ones((large[1], 1, 1, 1)), network.dtype(gate), "ones"))
        return editor.op(node.op_type, *((copies, full) if gates[0] == 0 else (full, copies)))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "spatial-gate",
    ("Mul", "Add", "Sub"),
    match,
    (
        holds("x 1x8x4x5, g 1x1x4x5", "y = Mul(x, g)"),
        holds("x 2x8x4x5, g 2x1x4x5", "y = Sub(g, x)"),
        refuses("x 2x8x4x5, g 1x1x4x5", "y = Mul(x, g)", "only the channels"),
        no_pattern("x 1x8x4x5, w 1x1x4x5", "y = Mul(x, w)"),
        no_pattern("x 1x8x4x5, g 1x1x1x1", "y = Mul(x, g)"),
    ),
)
