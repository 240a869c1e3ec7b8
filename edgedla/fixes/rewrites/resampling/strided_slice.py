"""A Slice that takes every n-th row or column as a depthwise convolution with that stride and one tap of 1."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.limits import conv_stride, kernel
from edgedla.fixes.rewrites.resampling.slices import steps_of
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    steps = steps_of(network, node)
    x = node.inputs[0]
    if steps is None or all(step == 1 for _, step, _ in steps.values()):
        return None
    _, c, h, w = network.nchw(x)
    network.dtype(x)
    if any(steps.get(axis, (0, 1, n)) != (0, 1, n) for axis, n in ((0, network.nchw(x)[0]), (1, c))):
        raise Refused("it also takes a part of the batch or of the channels")
    rows, columns = steps.get(2, (0, 1, h)), steps.get(3, (0, 1, w))
    if max(rows[1], columns[1]) > conv_stride():
        raise Refused(f"a step of {max(rows[1], columns[1])} is above {conv_stride()}, the largest stride")
    taps = (rows[0] + 1, columns[0] + 1)
    if max(taps) > kernel():
        raise Refused(f"it begins at {max(taps) - 1}; the kernel reaches {kernel() - 1}")
    for size, (first, step, count) in ((h, rows), (w, columns)):
        if (size - first - 1) // step + 1 != count:
            raise Refused("it ends before the last row or column that its step reaches")

    def build(editor: Any) -> Any:
        weight = np.zeros((c, 1, *taps))
        weight[:, :, -1, -1] = 1.0
        constant = editor.constant(weight, network.dtype(x), "tap")
        return editor.conv(x, constant, group=c, strides=[rows[1], columns[1]])

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "strided-slice",
    ("Slice",),
    match,
    (
        holds(
            "x 1x8x7x6",
            "s = Constant<value_ints = [1, 0]>() e = Constant<value_ints = [99, 99]>() a = Constant<value_ints = [2, 3]>() "
            "p = Constant<value_ints = [2, 3]>() y = Slice(x, s, e, a, p)",
        ),
        refuses(
            "x 1x8x7x6",
            "s = Constant<value_ints = [0]>() e = Constant<value_ints = [3]>() a = Constant<value_ints = [2]>() "
            "p = Constant<value_ints = [2]>() y = Slice(x, s, e, a, p)",
            "ends before",
        ),
        refuses(
            "x 1x8x27x6",
            "s = Constant<value_ints = [0]>() e = Constant<value_ints = [99]>() a = Constant<value_ints = [2]>() "
            "p = Constant<value_ints = [9]>() y = Slice(x, s, e, a, p)",
            "largest stride",
        ),
        no_pattern(
            "x 1x8x7x6",
            "s = Constant<value_ints = [1]>() e = Constant<value_ints = [7]>() "
            "a = Constant<value_ints = [2]>() y = Slice(x, s, e, a)",
        ),
    ),
)
