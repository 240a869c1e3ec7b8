"""A ConvTranspose whose output is stride times its input: a Conv to stride x stride channels, spread by a one-hot ConvTranspose.

For releases without a Slice, where deconv-crop cannot cut; there and in INT8 it is predicted as fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.convolution.patterns import window_of
from edgedla.fixes.rewrites.limits import rule_parameter
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

#: Dense one-hot weights above this many elements would dwarf the network.
MOST_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Taps:
    """One axis. Output s q + r reads input q + t with tap k = r + pad - s t, where 0 <= k < size.

    Attributes:
        first, last: smallest and largest t over all r. pad: in front of the transposed convolution.
    """

    size: int
    stride: int
    pad: int
    first: int
    last: int

    @classmethod
    def of(cls, size: int, stride: int, pad: int) -> Taps:
        return cls(size, stride, pad, min(-((size - 1 - pad) // stride), 0), max((stride - 1 + pad) // stride, 0))

    @property
    def kernel(self) -> int:
        return self.last - self.first + 1

    def places(self) -> List[Tuple[int, int, int]]:
        """(r, place in the Conv's kernel, tap k) of everything that is read."""
        taps = []
        for r in range(self.stride):
            for t in range(self.first, self.last + 1):
                k = r + self.pad - self.stride * t
                if 0 <= k < self.size:
                    taps.append((r, t - self.first, k))
        return taps


def match(network: Network, node: Node) -> Optional[Site]:
    window = window_of(network, node)
    if window is None:
        return None
    extra = attribute(node, "output_padding", [0, 0])
    if not any(window.pads) and not any(extra) and window.group == 1:
        return None
    if attribute(node, "output_shape", None):
        raise Refused("it names its output's size instead of its padding")
    if window.dilations != [1, 1]:
        raise Refused("it has a dilation")
    for k, s, p, q, e in zip(window.kernel, window.strides, window.pads, window.pads[2:], extra):
        if k - p - q + e != s:
            raise Refused(f"a kernel of {k} with padding {p} and {q} does not make an output of {s} times the input")
    most = rule_parameter("DECV003", "min") - 1
    if max(window.strides) > most:
        raise Refused(f"a stride of {window.strides}; the transposed convolution takes at most {most}")
    (n_in, per_group), group = window.weights[:2], window.group
    channels, (sh, sw) = per_group * group, window.strides
    if channels * channels * (sh * sw) ** 2 > MOST_ELEMENTS:
        raise Refused(f"one-hot weights of {channels * sh * sw} channels are too many")
    rows, columns = (Taps.of(k, s, p) for k, s, p in zip(window.kernel, window.strides, window.pads))
    dims = (channels * sh * sw, n_in // group, rows.kernel, columns.kernel)
    weight = node.inputs[1]

    def spread(m: np.ndarray) -> np.ndarray:
        # (group, inputs, outputs, k, k) to (group, outputs, row, column, inputs, place, place).
        taps = m.reshape(group, n_in // group, per_group, *window.kernel)
        parts = np.zeros((group, per_group, sh, sw, n_in // group, rows.kernel, columns.kernel), m.dtype)
        for i, y, tap_y in rows.places():
            for j, x, tap_x in columns.places():
                parts[:, :, i, j, :, y, x] = taps[:, :, :, tap_y, tap_x].transpose(0, 2, 1)
        return parts.reshape(dims)

    def build(editor: Any) -> Any:
        bias = window.bias
        if bias is not None:
            bias = editor.derived((bias,), dims[:1], lambda b: np.repeat(b, sh * sw), "bias")
        pads = [-rows.first, -columns.first, rows.last, columns.last]
        parts = editor.conv(node.inputs[0], editor.derived((weight,), dims, spread, "weight"), bias, pads=pads, group=group)
        places = np.zeros((dims[0], channels, sh, sw))
        k = np.arange(dims[0])
        places[k, k // (sh * sw), k // sw % sh, k % sw] = 1.0
        kernels = editor.constant(places, network.dtype(node.inputs[0]), "places")
        return editor.op("ConvTranspose", parts, kernels, kernel_shape=[sh, sw], strides=[sh, sw])

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "deconv-subpixel",
    ("ConvTranspose",),
    match,
    (
        holds("x 1x8x4x5, w 8x6x4x4, wb 6", "y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, wb)"),
        holds("x 1x8x4x5, w 8x6x3x3", "y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]>(x, w)"),
        holds("x 1x8x4x5, w 8x1x4x4", "y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1], group = 8>(x, w)"),
        refuses("x 1x8x4x5, w 8x6x3x3", "y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w)", "times the input"),
        refuses(
            "x 1x8x4x5, w 8x6x2x2",
            "y = ConvTranspose<strides = [2, 2], dilations = [2, 2], pads = [0, 0, 1, 1]>(x, w)",
            "dilation",
        ),
        no_pattern("x 1x8x4x5, w 8x6x2x2", "y = ConvTranspose<strides = [2, 2]>(x, w)"),
    ),
)
