"""A MaxPool with a window above the DLA's, stride 1 and padding to the same size, as a chain of smaller ones: 9 is 5 then 5."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.limits import pooling_window
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    kernel = attribute(node, "kernel_shape", [])
    if len(kernel) != 2 or max(kernel) <= pooling_window():
        return None
    if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        raise Refused("its indices are read")
    if attribute(node, "strides", [1, 1]) != [1, 1] or attribute(node, "dilations", [1, 1]) != [1, 1]:
        raise Refused("it has a stride or a dilation")
    pads = _pads(node, kernel)
    if pads != [k // 2 for k in kernel] * 2 or any(k % 2 == 0 for k in kernel):
        raise Refused(f"a window of {kernel} with padding {pads} does not keep the size")
    x = node.inputs[0]
    network.nchw(x)
    network.dtype(x)
    rows, columns = _chain(kernel[0]), _chain(kernel[1])
    count = max(len(rows), len(columns))
    windows = list(zip(rows + (1,) * (count - len(rows)), columns + (1,) * (count - len(columns))))

    def build(editor: Any) -> Any:
        y = x
        for window in windows:
            around = [k // 2 for k in window] * 2
            y = editor.op("MaxPool", y, kernel_shape=window, strides=[1, 1], pads=around)
        return y

    return Site(node.outputs[0], (node,), build)


def _pads(node: Node, kernel: Any) -> Any:
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return [k // 2 for k in kernel] * 2
    return attribute(node, "pads", [0, 0, 0, 0]) if auto == "NOTSET" else [0, 0, 0, 0]


def _chain(kernel: int) -> Tuple[int, ...]:
    """Odd windows whose chain covers the kernel: each adds window - 1. Equal ones of 5 or 7 where that comes out even."""
    rest = kernel - 1
    for window in (5, 7, 3):
        if rest % (window - 1) == 0:
            return (window,) * (rest // (window - 1))
    return ()


REWRITE = Rewrite(
    "chain-max-pool",
    ("MaxPool",),
    match,
    (
        holds("x 1x8x20x20", "y = MaxPool<kernel_shape = [13, 13], pads = [6, 6, 6, 6], strides = [1, 1]>(x)"),
        holds("x 1x8x20x20", "y = MaxPool<kernel_shape = [9, 5], pads = [4, 2, 4, 2]>(x)"),
        refuses("x 1x8x20x20", "y = MaxPool<kernel_shape = [9, 9], pads = [4, 4, 4, 4], strides = [2, 2]>(x)", "stride"),
        refuses("x 1x8x20x20", "y = MaxPool<kernel_shape = [9, 9], pads = [3, 3, 3, 3]>(x)", "keep the size"),
        no_pattern("x 1x8x20x20", "y = MaxPool<kernel_shape = [5, 5], pads = [2, 2, 2, 2]>(x)"),
    ),
)
