"""The numbers of a Conv or ConvTranspose that its rewrites ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from edgedla.fixes.network.network import Network, attribute, window_numbers
from edgedla.fixes.site import Node, Refused


@dataclass(frozen=True)
class Window:
    """kernel, strides, dilations: (h, w). pads: top, left, bottom, right. weights: dims. bias: a constant, or None."""

    kernel: List[int]
    strides: List[int]
    dilations: List[int]
    pads: List[int]
    group: int
    weights: Tuple[int, ...]
    bias: Optional[Any]


def window_of(network: Network, node: Node) -> Optional[Window]:
    """The numbers of a 2-D convolution with constant weights; None for another rank. Read once, as several rewrites ask.

    Raises:
        Refused: weights or bias are computed, or it pads by itself.
    """
    key = (node, *node.inputs)
    if key not in network.windows:
        network.windows[key] = _window_of(network, node)
    found: Optional[Window] = network.windows[key]
    return found


def _window_of(network: Network, node: Node) -> Optional[Window]:
    shape = network.shape(node.inputs[0])
    if shape is None or len(shape) != 4:
        return None
    network.dtype(node.inputs[0])
    weights = network.weight_shape(node.inputs[1])
    if len(weights) != 4:
        raise Refused(f"its weights have {len(weights)} dims; those of a 2-D convolution have 4")
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        network.weight_shape(bias)
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID"):
        raise Refused(f"auto_pad is {auto}: export with pads")
    return Window(
        kernel=list(weights[2:]),
        strides=window_numbers(node, "strides", (1, 1)),
        dilations=window_numbers(node, "dilations", (1, 1)),
        pads=window_numbers(node, "pads", (0, 0, 0, 0)) if auto == "NOTSET" else [0, 0, 0, 0],
        group=attribute(node, "group", 1),
        weights=weights,
        bias=bias,
    )
