"""A Conv with kernel = stride above the DLA's stride (patch embedding) as two: 16 x 16 is a one-hot 4 x 4, then 4 x 4."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.convolution.patterns import window_of
from edgedla.fixes.rewrites.limits import conv_stride
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    window = window_of(network, node)
    if window is None or window.kernel != window.strides or max(window.strides) <= conv_stride():
        return None
    if window.group != 1 or any(window.pads) or window.dilations != [1, 1]:
        raise Refused("it has groups, padding or a dilation")
    splits = [_halves(n) for n in window.kernel]
    if any(s is None for s in splits):
        raise Refused(f"{window.kernel} is not a product of two numbers of at most {conv_stride()}")
    (ah, bh), (aw, bw) = (s for s in splits if s is not None)
    x, weight = node.inputs[:2]
    out, c = window.weights[:2]

    def build(editor: Any) -> Any:
        # Channel (i aw + j) c + k holds the element i, j of each ah x aw block of channel k.
        places = np.zeros((ah * aw * c, c, ah, aw))
        for place in range(ah * aw):
            places[place * c + np.arange(c), np.arange(c), place // aw, place % aw] = 1.0
        blocks = editor.conv(x, editor.constant(places, network.dtype(x), "places"), strides=[ah, aw])

        def regrouped(m: np.ndarray) -> np.ndarray:
            parts = m.reshape(out, c, bh, ah, bw, aw)
            return parts.transpose(0, 3, 5, 1, 2, 4).reshape(out, ah * aw * c, bh, bw)

        second = editor.derived((weight,), (out, ah * aw * c, bh, bw), regrouped, "weight")
        return editor.conv(blocks, second, window.bias, strides=[bh, bw])

    return Site(node.outputs[0], (node,), build)


def _halves(number: int) -> Optional[Any]:
    """Two factors within the stride, as equal as can be."""
    most = conv_stride()
    pairs = [(a, number // a) for a in range(1, most + 1) if number % a == 0 and number // a <= most]
    return min(pairs, key=lambda p: abs(p[0] - p[1])) if pairs else None


REWRITE = Rewrite(
    "patch-embedding",
    ("Conv",),
    match,
    (
        holds("x 1x3x32x32, w 8x3x16x16, wb 8", "y = Conv<strides = [16, 16]>(x, w, wb)"),
        holds("x 1x3x28x36, w 8x3x14x9", "y = Conv<strides = [14, 9]>(x, w)"),
        refuses("x 1x3x22x22, w 8x3x11x11", "y = Conv<strides = [11, 11]>(x, w)", "product of two"),
        refuses("x 1x4x32x32, w 8x2x16x16", "y = Conv<strides = [16, 16], group = 2>(x, w)", "groups"),
        no_pattern("x 1x3x32x32, w 8x3x8x8", "y = Conv<strides = [8, 8]>(x, w)"),
    ),
)
