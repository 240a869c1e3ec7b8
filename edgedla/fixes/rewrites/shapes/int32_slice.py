"""A Slice of a 4-D tensor with its numbers in INT32: the parser of 10.x makes computed bounds of INT64 ones."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x = node.inputs[0]
    numbers = [v for v in node.inputs[1:] if v is not None]
    if not numbers or all(v.dtype is not None and v.dtype.name == "INT32" for v in numbers):
        return None
    shape = network.static(x)
    if len(shape) != 4:
        return None
    read: List[Optional[np.ndarray]] = []
    for value in list(node.inputs[1:]) + [None] * (5 - len(node.inputs)):
        constant = None if value is None else network.constant(value)
        if value is not None and constant is None:
            raise Refused(f"{value.name} is computed at run time")
        read.append(constant)
    starts, ends, axes, steps = read
    if starts is None or ends is None:
        raise Refused("the bounds are missing")
    if steps is not None and any(int(s) != 1 for s in steps):
        return None
    along = list(range(len(starts))) if axes is None else [int(a) % 4 for a in axes]
    if 0 in along and any(int(s) not in (0, -shape[0]) or int(e) < shape[0] for s, e, a in zip(starts, ends, along) if a == 0):
        raise Refused("it cuts the batch, which the DLA does not")
    bounds = [slice(int(s), int(e)).indices(shape[a])[:2] for s, e, a in zip(starts, ends, along)]

    def build(editor: Any) -> Any:
        return editor.slice(x, [b[0] for b in bounds], [max(b) for b in bounds], along)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "int32-slice",
    ("Slice",),
    match,
    (
        holds(
            "x 1x8x4x4",
            "s = Constant<value_ints = [2]>() e = Constant<value_ints = [9223372036854775807]>() "
            "a = Constant<value_ints = [1]>() y = Slice(x, s, e, a)",
        ),
        holds(
            "x 1x8x4x4",
            "s = Constant<value_ints = [-3, 0]>() e = Constant<value_ints = [-1, 3]>() "
            "a = Constant<value_ints = [-1, 1]>() y = Slice(x, s, e, a)",
        ),
        refuses(
            "x 2x8x4x4",
            "s = Constant<value_ints = [1]>() e = Constant<value_ints = [2]>() "
            "a = Constant<value_ints = [0]>() y = Slice(x, s, e, a)",
            "batch",
        ),
        no_pattern(
            "x 1x8x4x4",
            "s = Constant<value_ints = [0]>() e = Constant<value_ints = [8]>() "
            "a = Constant<value_ints = [1]>() p = Constant<value_ints = [2]>() y = Slice(x, s, e, a, p)",
        ),
        no_pattern("x 1x8x4", "s = Constant<value_ints = [0]>() e = Constant<value_ints = [2]>() y = Slice(x, s, e)"),
    ),
)
