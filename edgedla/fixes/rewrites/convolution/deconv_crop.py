"""A ConvTranspose with padding or output_padding as one without, and a Slice that crops its output."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.convolution.patterns import window_of
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

#: First release whose DLA takes a Slice.
FIRST_SLICE = (8, 5)


def match(network: Network, node: Node) -> Optional[Site]:
    window = window_of(network, node)
    if window is None:
        return None
    extra = attribute(node, "output_padding", [0, 0])
    if not any(window.pads) and not any(extra):
        return None
    if attribute(node, "output_shape", None):
        raise Refused("it names its output's size instead of its padding")
    if network.goal.trt < FIRST_SLICE:
        raise Refused("the DLA takes a Slice from TensorRT 8.5 on")
    if any(e > p for e, p in zip(extra, window.pads[2:])):
        raise Refused(f"output_padding {extra} reaches beyond the padding {window.pads[2:]}")
    x = node.inputs[0]
    _, _, h, w = network.nchw(x)
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip((h, w), window.strides, window.kernel, window.dilations)]
    starts = window.pads[:2]
    ends = [n - p + e for n, p, e in zip(full, window.pads[2:], extra)]
    attributes = {name: a.value for name, a in node.attributes.items() if name not in ("pads", "output_padding", "auto_pad")}

    def build(editor: Any) -> Any:
        return editor.slice(editor.op("ConvTranspose", *node.inputs, **attributes), starts, ends, [2, 3])

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "deconv-crop",
    ("ConvTranspose",),
    match,
    (
        holds("x 1x8x4x5, w 8x6x4x4, wb 6", "y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, wb)"),
        holds("x 1x8x4x5, w 8x6x3x3", "y = ConvTranspose<strides = [2, 2], pads = [1, 0, 1, 1], output_padding = [1, 1]>(x, w)"),
        refuses("x 1x8x4x5, w 8x6x3x3", "y = ConvTranspose<strides = [2, 2], output_padding = [1, 1]>(x, w)", "beyond"),
        refuses("x 1x8x4x5, w 8x6x4x4", "y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w)", "8.5", trt=(8, 4)),
        no_pattern("x 1x8x4x5, w 8x6x2x2", "y = ConvTranspose<strides = [2, 2]>(x, w)"),
    ),
)
