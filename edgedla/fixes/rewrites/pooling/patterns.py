"""Reductions over height and width, in the forms that exporters write."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.limits import pooling_window
from edgedla.fixes.rewrites.numbers import stages
from edgedla.fixes.site import Node, Refused, Site

Reduced = Tuple[Any, Tuple[int, int, int, int], Tuple[int, ...]]


def reduce_axes(network: Network, node: Node, rank: int) -> Optional[Tuple[int, ...]]:
    """Axes of a Reduce node, sorted and from 0: an attribute first, an input from opset 13 (Sum) or 18 on.

    Raises:
        Refused: they are computed at run time.
    """
    axes = attribute(node, "axes", None)
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        constant = network.constant(node.inputs[1])
        if constant is None:
            raise Refused("the axes are computed at run time")
        axes = [int(a) for a in np.atleast_1d(constant)]
    if not axes:
        # Without axes all are reduced, or none where the node says so.
        axes = [] if attribute(node, "noop_with_empty_axes", 0) else list(range(rank))
    return tuple(sorted(a % rank for a in axes))


def over_height_and_width(network: Network, node: Node) -> Optional[Reduced]:
    """(input, its dims, dims of the output) of a global pooling or of a reduction over exactly H and W."""
    x = node.inputs[0]
    shape = network.shape(x)
    if shape is not None and len(shape) != 4:
        return None
    if node.op_type.startswith("Reduce"):
        if reduce_axes(network, node, 4) != (2, 3):
            return None
        keep = attribute(node, "keepdims", 1)
    else:
        keep = 1
    n, c, h, w = network.nchw(x)
    network.dtype(x)
    return x, (n, c, h, w), (n, c, 1, 1) if keep else (n, c)


def with_shape(editor: Any, x: Any, shape: Tuple[int, ...]) -> Any:
    """x, reshaped where the reduction dropped its dims."""
    return x if len(shape) == 4 else editor.reshape(x, shape)


def pooling_chain(network: Network, node: Node, op: str, **attributes: Any) -> Optional[Site]:
    """A global pooling or a reduction over H and W as a chain of `op`, each within the DLA's window; None for others.

    Args:
        attributes: of every pooling in the chain, besides its window.

    Raises:
        Refused: a size has a prime factor above the largest window.
    """
    reduced = over_height_and_width(network, node)
    if reduced is None:
        return None
    x, (_, _, h, w), shape = reduced
    windows = stages(h, w, pooling_window())
    if windows is None:
        raise Refused(f"{h} x {w} has a prime factor above {pooling_window()}, the largest window of a pooling")

    def build(editor: Any) -> Any:
        y = x
        for window in windows:
            y = editor.op(op, y, kernel_shape=window, strides=window, **attributes)
        return with_shape(editor, y, shape)

    return Site(node.outputs[0], (node,), build) if windows else None
