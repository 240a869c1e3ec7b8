"""LayerNormalization as InstanceNormalization of rows, then scale and bias: the parser of TensorRT 8.5 has an importer for it.

It stays on the GPU, in one kernel. In single operators the DLA would take some of them, each alone between two that it
does not take."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

#: First release whose parser imports the operator.
FIRST_WITHOUT_NEED = (8, 6)
#: Each row has its own scale and offset; an image of 1024 x 1024 has so many.
MOST_ROWS = 1 << 20


def match(network: Network, node: Node) -> Optional[Site]:
    if network.goal.trt >= FIRST_WITHOUT_NEED:
        return None
    if any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        raise Refused("its mean or deviation is read")
    x, scale = node.inputs[:2]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    shape = network.static(x)
    axis = attribute(node, "axis", -1) % len(shape)
    rows, columns = math.prod(shape[:axis]), math.prod(shape[axis:])
    if rows > MOST_ROWS:
        raise Refused(f"{rows} rows would take as many constants twice")
    epsilon = attribute(node, "epsilon", 1e-5)
    dtype = network.dtype(x)

    def build(editor: Any) -> Any:
        ones, zeros = editor.constant(np.ones(rows), dtype, "ones"), editor.constant(np.zeros(rows), dtype, "zeros")
        as_rows = editor.reshape(x, (1, rows, columns))
        normal = editor.reshape(editor.op("InstanceNormalization", as_rows, ones, zeros, epsilon=epsilon), shape)
        y = editor.op("Mul", normal, scale)
        return y if bias is None else editor.op("Add", y, bias)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "expand-layer-norm",
    ("LayerNormalization",),
    match,
    (
        holds("x 2x7x8, w 8, wb 8", "y = LayerNormalization(x, w, wb)", opset=17, trt=(8, 5)),
        holds("x 2x7x8x3, w 8x3", "y = LayerNormalization<axis = 2>(x, w)", opset=17, trt=(8, 5)),
        holds("x 2x7x8, w 8", "y = LayerNormalization(x, w)", opset=21, trt=(8, 5)),
        refuses("x 1025x1024x8, w 8", "y = LayerNormalization(x, w)", "1049600 rows", opset=17, trt=(8, 5)),
        no_pattern("x 2x7x8, w 8", "y = LayerNormalization(x, w)", opset=17),
    ),
)
