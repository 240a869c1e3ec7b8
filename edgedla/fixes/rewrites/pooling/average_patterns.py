"""The numbers of an AveragePool that its rewrites ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from edgedla.fixes.network.network import Network, attribute, window_numbers
from edgedla.fixes.site import Node, Refused


@dataclass(frozen=True)
class Average:
    """kernel, strides: (h, w). pads: top, left, bottom, right. inclusive: padding counts in the divisor."""

    kernel: List[int]
    strides: List[int]
    pads: List[int]
    inclusive: bool


def average_of(network: Network, node: Node) -> Optional[Average]:
    """The numbers of a 2-D AveragePool; None for another rank.

    Raises:
        Refused: it rounds its output size up, dilates, or pads by itself.
    """
    kernel = attribute(node, "kernel_shape", [])
    if len(kernel) != 2:
        return None
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID"):
        raise Refused(f"auto_pad is {auto}: export with pads")
    if attribute(node, "dilations", [1, 1]) != [1, 1]:
        raise Refused("it has a dilation")
    strides = window_numbers(node, "strides", (1, 1))
    pads = window_numbers(node, "pads", (0, 0, 0, 0)) if auto == "NOTSET" else [0, 0, 0, 0]
    _, _, h, w = network.nchw(node.inputs[0])
    network.dtype(node.inputs[0])
    sides = [h + pads[0] + pads[2], w + pads[1] + pads[3]]
    if attribute(node, "ceil_mode", 0) and any((n - k) % s for n, k, s in zip(sides, kernel, strides)):
        raise Refused("ceil_mode adds windows that reach outside")
    return Average(kernel, strides, pads, bool(attribute(node, "count_include_pad", 0)))
