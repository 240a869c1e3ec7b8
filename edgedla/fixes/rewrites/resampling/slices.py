"""Slices with steps along H and W, in the forms that exporters write."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node

#: (first, step, count) along one axis.
Steps = Tuple[int, int, int]


def steps_of(network: Network, node: Node) -> Optional[Dict[int, Steps]]:
    """By axis, what a Slice of a 4-D tensor takes; None where its numbers are not constants or a step is negative."""
    shape = network.shape(node.inputs[0])
    if shape is None or len(shape) != 4 or len(node.inputs) < 3:
        return None
    read = [None if v is None else network.constant(v) for v in node.inputs[1:]]
    if any(v is not None and constant is None for v, constant in zip(node.inputs[1:], read)):
        return None
    starts, ends = read[0], read[1]
    if starts is None or ends is None:
        return None
    axes: Sequence[int] = list(read[2]) if len(read) > 2 and read[2] is not None else range(len(starts))
    steps: Sequence[int] = list(read[3]) if len(read) > 3 and read[3] is not None else [1] * len(starts)
    by_axis: Dict[int, Steps] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if int(step) < 1:
            return None
        size = shape[int(axis) % 4]
        first, last, _ = slice(int(start), int(end), int(step)).indices(size)
        by_axis[int(axis) % 4] = (first, int(step), len(range(first, last, int(step))))
    return by_axis


def traced(network: Network, value: Any) -> Optional[Tuple[Any, Tuple[Any, ...], Dict[int, Steps]]]:
    """(root, slices in order, their combined steps by axis) of a value after one or several successive Slices; else None."""
    nodes: Tuple[Any, ...] = ()
    whole: Dict[int, Steps] = {}
    while True:
        node = network.producer(value, "Slice")
        steps = None if node is None else steps_of(network, node)
        if node is None or steps is None:
            return (value, nodes, whole) if nodes else None
        for axis, (first, step, count) in steps.items():
            # The slices so far, applied to the result of this slice.
            inner = whole.get(axis, (0, 1, count))
            whole[axis] = (first + inner[0] * step, step * inner[1], inner[2])
        nodes, value = (node, *nodes), node.inputs[0]
