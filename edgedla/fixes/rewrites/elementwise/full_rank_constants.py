"""A small elementwise constant below the input's rank, or read by several nodes: its own copy with four dims for each."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import MOST_READ_ELEMENTS, Network
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern

#: First release that folds shared and small constants by itself.
FIRST_WITHOUT_NEED = (10,)


def match(network: Network, node: Node) -> Optional[Site]:
    if network.goal.trt >= FIRST_WITHOUT_NEED:
        return None
    if len(node.inputs) != 2 or network.is_constant(node.inputs[0]) == network.is_constant(node.inputs[1]):
        return None
    place = 0 if network.is_constant(node.inputs[0]) else 1
    constant, x = node.inputs[place], node.inputs[1 - place]
    assert constant is not None
    assert constant.const_value is not None
    shape = network.shape(x)
    dims = network.weight_shape(constant)
    if shape is None or len(shape) != 4 or network.shape(node.outputs[0]) != shape or len(dims) > 4:
        return None
    if constant.const_value.size > MOST_READ_ELEMENTS or (len(dims) == 4 and len(constant.uses()) == 1):
        return None
    network.dtype(x)
    full = (1,) * (4 - len(dims)) + dims

    def build(editor: Any) -> Any:
        copy = editor.reshaped(constant, full, "constant")
        return editor.op(node.op_type, *((copy, x) if place == 0 else (x, copy)))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "full-rank-constants",
    ("Mul", "Add", "Sub", "Max", "Min"),
    match,
    (
        holds("x 1x8x4x4, w 8x1x1", "y = Mul(x, w)", trt=(8, 5)),
        holds("x 1x8x4x4, w 1x8x1x1", "a = Add(w, x) y = Mul(a, w)", trt=(8, 5)),
        no_pattern("x 1x8x4x4, w 1x8x1x1", "y = Mul(x, w)", trt=(8, 5)),
        no_pattern("x 1x8x4x4, w 8x1x1", "y = Mul(x, w)"),
        no_pattern("x 1x8x4, w 8x1", "y = Mul(x, w)", trt=(8, 5)),
    ),
)
