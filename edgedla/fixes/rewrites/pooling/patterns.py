"""Reductions over height and width, in the forms that exporters write."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Refused

Reduced = Tuple[Any, Tuple[int, int, int, int], Tuple[int, ...]]


def reduce_axes(network: Network, node: Any, rank: int) -> Optional[Tuple[int, ...]]:
    """Axes of a Reduce node, sorted and from 0: an attribute first, an input from opset 13 (Sum) or 18 on.

    Raises:
        Refused: they are computed at run time.
    """
    axes = attribute(node, "axes", None)
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        known = network.constant(node.inputs[1])
        if known is None:
            raise Refused("the axes are computed at run time")
        axes = [int(a) for a in np.atleast_1d(known)]
    if not axes:
        # Without axes all are reduced, or none where the node says so.
        axes = [] if attribute(node, "noop_with_empty_axes", 0) else list(range(rank))
    return tuple(sorted(a % rank for a in axes))


def over_height_and_width(network: Network, node: Any) -> Optional[Reduced]:
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
