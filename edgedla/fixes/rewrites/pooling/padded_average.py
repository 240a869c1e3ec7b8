"""A padded AveragePool that leaves the padding out of its divisor, as one that counts it, times a constant map."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.pooling.average_patterns import Average, average_of
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern


def match(network: Network, node: Node) -> Optional[Site]:
    if network.goal.chip != "xavier":
        return None
    average = average_of(network, node)
    if average is None or not any(average.pads) or average.inclusive:
        return None
    x = node.inputs[0]
    _, c, h, w = network.nchw(x)

    def build(editor: Any) -> Any:
        y = editor.op(
            "AveragePool", x, kernel_shape=average.kernel, strides=average.strides, pads=average.pads, count_include_pad=1
        )
        rows = _counted(h, 0, average)
        columns = _counted(w, 1, average)
        factor = (average.kernel[0] * average.kernel[1]) / np.outer(rows, columns)
        full = np.broadcast_to(factor, (1, c, *factor.shape))
        return editor.op("Mul", y, editor.constant(full, network.dtype(x), "border"))

    return Site(node.outputs[0], (node,), build)


def _counted(size: int, axis: int, average: Average) -> np.ndarray:
    """Real elements under each window along one axis."""
    before, after = average.pads[axis], average.pads[axis + 2]
    kernel, stride = average.kernel[axis], average.strides[axis]
    starts = np.arange(0, size + before + after - kernel + 1, stride) - before
    return np.minimum(starts + kernel, size) - np.maximum(starts, 0)


REWRITE = Rewrite(
    "padded-average",
    ("AveragePool",),
    match,
    (
        holds("x 1x8x9x8", "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)", chip="xavier"),
        holds("x 1x8x9x9", "y = AveragePool<kernel_shape = [3, 5], pads = [1, 2, 0, 1], strides = [2, 1]>(x)", chip="xavier"),
        no_pattern(
            "x 1x8x9x9", "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(x)", chip="xavier"
        ),
        no_pattern("x 1x8x9x9", "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)"),
    ),
)
