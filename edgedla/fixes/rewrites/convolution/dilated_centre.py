"""A dilated convolution whose outer taps all fall into the padding: its centre tap alone, a 1x1 convolution."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.convolution.patterns import window_of
from edgedla.fixes.site import Node, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    window = window_of(network, node)
    if window is None or window.dilations == [1, 1] or window.strides != [1, 1]:
        return None
    _, _, h, w = network.nchw(node.inputs[0])
    kh, kw = window.kernel
    if kh % 2 == 0 or kw % 2 == 0 or kh * kw == 1:
        return None
    centre = [d * (k // 2) for d, k in zip(window.dilations, window.kernel)]
    if window.pads != centre * 2:
        return None
    outside = [k == 1 or d >= n for d, k, n in zip(window.dilations, window.kernel, (h, w))]
    if not all(outside):
        return None
    x, weight = node.inputs[:2]
    dims = (*window.weights[:2], 1, 1)

    def build(editor: Any) -> Any:
        tap = editor.derived((weight,), dims, lambda m: m[:, :, kh // 2 : kh // 2 + 1, kw // 2 : kw // 2 + 1], "centre")
        return editor.conv(x, tap, window.bias, group=window.group)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "dilated-centre",
    ("Conv",),
    match,
    (
        holds("x 1x8x7x6, w 4x8x3x3, wb 4", "y = Conv<dilations = [7, 9], pads = [7, 9, 7, 9]>(x, w, wb)"),
        holds("x 1x8x5x5, w 8x1x3x3", "y = Conv<dilations = [12, 12], pads = [12, 12, 12, 12], group = 8>(x, w)"),
        no_pattern("x 1x8x7x6, w 4x8x3x3", "y = Conv<dilations = [6, 6], pads = [6, 6, 6, 6]>(x, w)"),
        refuses("x 1x8x7x6, v 4x8x3x3", "y = Conv<dilations = [7, 7], pads = [7, 7, 7, 7]>(x, v)", "not a constant"),
    ),
)
