"""LayerNormalization in single operators, as exporters wrote it before opset 17: the parser of TensorRT 8.5 has no importer for it."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Refused, Rewrite, Site, holds, no_pattern, refuses

#: First release whose parser imports the operator.
FIRST_WITHOUT_NEED = (8, 6)


def match(network: Network, node: Any) -> Optional[Site]:
    if network.goal.trt >= FIRST_WITHOUT_NEED:
        return None
    if any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        raise Refused("its mean or deviation is read")
    if network.opset >= 18:
        raise Refused("in opset 18 a mean has its axes as input, which TensorRT 8.5 refuses: lower it with --opset 17")
    x, scale = node.inputs[:2]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    rank = len(network.static(x))
    axes = list(range(attribute(node, "axis", -1) % rank, rank))
    epsilon = attribute(node, "epsilon", 1e-5)
    dtype = network.dtype(x)

    def build(editor: Any) -> Any:
        centred = editor.op("Sub", x, editor.op("ReduceMean", x, axes=axes))
        variance = editor.op("ReduceMean", editor.op("Mul", centred, centred), axes=axes)
        deviation = editor.op("Sqrt", editor.op("Add", variance, editor.constant(np.array(epsilon), dtype, "epsilon")))
        y = editor.op("Mul", editor.op("Div", centred, deviation), scale)
        return y if bias is None else editor.op("Add", y, bias)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "expand-layer-norm",
    ("LayerNormalization",),
    match,
    (
        holds("x 2x7x8, w 8, wb 8", "y = LayerNormalization(x, w, wb)", opset=17, trt=(8, 5)),
        holds("x 2x7x8x3, w 8x3", "y = LayerNormalization<axis = 2>(x, w)", opset=17, trt=(8, 5)),
        refuses("x 2x7x8, w 8", "y = LayerNormalization(x, w)", "--opset 17", opset=18, trt=(8, 5)),
        no_pattern("x 2x7x8, w 8", "y = LayerNormalization(x, w)", opset=17),
    ),
)
