"""DepthToSpace (PixelShuffle), as an operator or as Reshape, Transpose, Reshape: a one-hot ConvTranspose, kernel = stride."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.limits import rule_parameter
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

Pattern = Tuple[Any, Tuple[Any, ...], int, bool]

#: Elements of the one-hot weights: larger ones are most of a model that had none.
MOST_ELEMENTS = 1 << 24


def match(network: Network, node: Node) -> Optional[Site]:
    rearrangement = _operator(node) if node.op_type == "DepthToSpace" else _reshapes(network, node)
    if rearrangement is None:
        return None
    x, nodes, block, by_channel = rearrangement
    _, c, _, _ = network.nchw(x)
    network.dtype(x)
    # Kernels from this size on are refused.
    most = rule_parameter("DECV003", "min") - 1
    if not 1 < block <= most:
        raise Refused(f"a block of {block}; the transposed convolution takes 2 to {most}")
    channels = c // (block * block)
    if c * c > MOST_ELEMENTS:
        raise Refused(f"one-hot weights of {c} channels are too many")

    def build(editor: Any) -> Any:
        weight = np.zeros((c, channels, block, block))
        for k in range(c):
            if by_channel:
                channel, place = divmod(k, block * block)
            else:
                place, channel = divmod(k, channels)
            weight[k, channel, place // block, place % block] = 1.0
        kernels = editor.constant(weight, network.dtype(x), "places")
        return editor.op("ConvTranspose", x, kernels, kernel_shape=[block, block], strides=[block, block])

    return Site(node.outputs[0], nodes, build)


def _operator(node: Node) -> Pattern:
    return node.inputs[0], (node,), attribute(node, "blocksize", 1), attribute(node, "mode", "DCR") == "CRD"


def turned(network: Network, node: Node) -> Optional[Tuple[Any, Any]]:
    """(the Reshape, the Transpose) before a Reshape, if nothing else reads either."""
    turn = network.producer(node.inputs[0], "Transpose")
    first = network.producer(turn.inputs[0], "Reshape") if turn is not None else None
    if turn is None or first is None or network.only_reader(node.inputs[0]) is not node:
        return None
    return (first, turn) if network.only_reader(turn.inputs[0]) is turn else None


def _reshapes(network: Network, node: Node) -> Optional[Pattern]:
    before = turned(network, node)
    if before is None:
        return None
    first, turn = before
    shape, parts, out = (network.shape(v) for v in (first.inputs[0], turn.inputs[0], node.outputs[0]))
    if shape is None or parts is None or len(shape) != 4 or len(parts) != 6:
        return None
    n, c, h, w = shape
    perm = attribute(turn, "perm", None)
    if perm == [0, 1, 4, 2, 5, 3] and parts[2] == parts[3]:
        block, by_channel, expected = parts[2], True, (n, c // max(parts[2], 1) ** 2, parts[2], parts[2], h, w)
    elif perm == [0, 3, 4, 1, 5, 2] and parts[1] == parts[2]:
        block, by_channel, expected = parts[1], False, (n, parts[1], parts[1], c // max(parts[1], 1) ** 2, h, w)
    else:
        return None
    if parts != expected or out != (n, c // block**2, h * block, w * block):
        return None
    return first.inputs[0], (first, turn, node), block, by_channel


REWRITE = Rewrite(
    "depth-to-space",
    ("DepthToSpace", "Reshape"),
    match,
    (
        holds("x 1x12x4x5", "y = DepthToSpace<blocksize = 2>(x)"),
        holds("x 2x18x4x5", 'y = DepthToSpace<blocksize = 3, mode = "CRD">(x)'),
        holds(
            "x 1x12x4x5",
            "s = Constant<value_ints = [1, 3, 2, 2, 4, 5]>() r = Reshape(x, s) "
            "t = Transpose<perm = [0, 1, 4, 2, 5, 3]>(r) b = Constant<value_ints = [1, 3, 8, 10]>() y = Reshape(t, b)",
        ),
        holds(
            "x 1x18x4x5",
            "s = Constant<value_ints = [1, 2, 3, 3, 4, 5]>() r = Reshape(x, s) "
            "t = Transpose<perm = [0, 1, 4, 2, 5, 3]>(r) b = Constant<value_ints = [1, 2, 12, 15]>() y = Reshape(t, b)",
        ),
        refuses("x 1x529x1x1", "y = DepthToSpace<blocksize = 23>(x)", "a block of 23"),
        no_pattern(
            "x 1x12x4x5",
            "s = Constant<value_ints = [1, 3, 2, 2, 4, 5]>() r = Reshape(x, s) "
            "t = Transpose<perm = [0, 1, 2, 4, 3, 5]>(r) b = Constant<value_ints = [1, 3, 8, 10]>() y = Reshape(t, b)",
        ),
    ),
)
