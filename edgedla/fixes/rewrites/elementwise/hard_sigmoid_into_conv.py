"""A Conv that only a HardSigmoid reads takes its slope and offset into the weights; Clip(0, 1) is what is left."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern


def match(network: Network, node: Node) -> Optional[Site]:
    conv = network.producer(node.inputs[0], "Conv")
    if conv is None or network.only_reader(node.inputs[0]) is not node or network.goal.precision == "int8":
        # In INT8 the convolution's own scale would shrink to the range of the clip.
        return None
    x, weight = conv.inputs[:2]
    network.dtype(x)
    network.nchw(x)
    dims = network.weight_shape(weight)
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    if bias is not None and not network.is_constant(bias):
        raise Refused("the bias is computed at run time")
    alpha, beta = attribute(node, "alpha", 0.2), attribute(node, "beta", 0.5)
    attributes = {name: a.value for name, a in conv.attributes.items() if name != "kernel_shape"}

    def build(editor: Any) -> Any:
        scaled = editor.derived((weight,), dims, lambda w: w * w.dtype.type(alpha), "weight")
        if bias is None:
            moved = editor.constant(np.full(dims[0], beta), network.dtype(x), "bias")
        else:
            moved = editor.derived((bias,), dims[:1], lambda b: b * b.dtype.type(alpha) + b.dtype.type(beta), "bias")
        return editor.clip(editor.conv(x, scaled, moved, **attributes), 0.0, 1.0)

    return Site(node.outputs[0], (conv, node), build)


REWRITE = Rewrite(
    "hard-sigmoid-into-conv",
    ("HardSigmoid",),
    match,
    (
        holds("x 1x8x4x4, w 6x8x1x1, wb 6", "c = Conv(x, w, wb) y = HardSigmoid(c)"),
        holds("x 1x8x4x4, w 6x4x3x3", "c = Conv<group = 2, pads = [1, 1, 1, 1]>(x, w) y = HardSigmoid<beta = 0.4>(c)"),
        no_pattern("x 1x8x4x4, w 8x8x1x1", "c = Conv(x, w) h = HardSigmoid(c) y = Add(c, h)"),
        no_pattern("x 1x8x4x4", "y = HardSigmoid(x)"),
    ),
)
