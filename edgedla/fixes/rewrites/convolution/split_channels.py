"""A Conv whose weights and input rows exceed the convolution buffer: its input channels in parts, each with a Conv, summed.

FP16 and wide maps lose by it against the GPU; builds without a GPU need it."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.convolution.patterns import Window, window_of
from edgedla.fixes.rewrites.limits import buffer_overflow
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

#: More partial sums than this cost more than any build gains.
MOST_PARTS = 16


def match(network: Network, node: Node) -> Optional[Site]:
    window = window_of(network, node)
    if window is None:
        return None
    n, channels, h, w = network.nchw(node.inputs[0])
    if not _overflows(network, window, channels, (n, channels, h, w)):
        return None
    if window.group != 1:
        raise Refused(f"it has {window.group} groups, and exceeds the convolution buffer")
    for parts in range(2, MOST_PARTS + 1):
        most = -(-channels // parts)
        if not _overflows(network, window, most, (n, most, h, w)):
            break
    else:
        raise Refused(f"{MOST_PARTS} parts of its input channels still exceed the convolution buffer")
    sizes = [channels // parts + (i < channels % parts) for i in range(parts)]
    attributes = {name: a.value for name, a in node.attributes.items() if name != "kernel_shape"}
    ends = np.cumsum([0, *sizes]).tolist()
    x, weight = node.inputs[:2]

    def build(editor: Any) -> Any:
        total = None
        for i, part in enumerate(editor.split(x, sizes, axis=1)):
            dims = (window.weights[0], sizes[i], *window.kernel)
            part_weight = editor.derived((weight,), dims, _columns(ends[i], ends[i + 1]), "weight")
            y = editor.conv(part, part_weight, window.bias if i == 0 else None, **attributes)
            total = y if total is None else editor.op("Add", total, y)
        return total

    return Site(node.outputs[0], (node,), build, note="in INT8 each partial sum is rounded with a scale of its own")


def _columns(start: int, end: int) -> Any:
    return lambda m: m[:, start:end]


def _overflows(network: Network, window: Window, channels: int, dims: Any) -> bool:
    bytes_each = 1 if network.goal.precision == "int8" else 2
    return buffer_overflow(dims, window.weights[0], tuple(window.kernel), window.group, tuple(window.dilations), bytes_each)


REWRITE = Rewrite(
    "split-channels",
    ("Conv",),
    match,
    (
        holds("x 1x512x4x160, w 16x512x3x3, wb 16", "y = Conv<pads = [1, 1, 1, 1]>(x, w, wb)"),
        holds("x 1x256x1x512, w 2x256x7x7", "y = Conv<pads = [3, 3, 3, 3]>(x, w)", precision="int8"),
        refuses("x 1x512x4x256, w 2x256x3x3", "y = Conv<pads = [1, 1, 1, 1], group = 2>(x, w)", "groups"),
        refuses("x 1x16x31x8192, w 1x16x31x3", "y = Conv(x, w)", "still exceed the convolution buffer"),
        no_pattern("x 1x512x4x80, w 16x512x3x3", "y = Conv<pads = [1, 1, 1, 1]>(x, w)"),
    ),
)
