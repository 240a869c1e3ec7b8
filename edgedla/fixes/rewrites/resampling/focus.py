"""A Focus layer (strided Slices of one tensor, joined along the channels) as a one-hot convolution, kernel = stride."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.limits import conv_stride
from edgedla.fixes.rewrites.resampling.slices import traced
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    traces = [traced(network, v) for v in node.inputs]
    if len(traces) < 2 or any(t is None for t in traces):
        return None
    pieces = [t for t in traces if t is not None]
    x = pieces[0][0]
    if any(root is not x for root, _, _ in pieces):
        return None
    shape = network.shape(x)
    if shape is None or len(shape) != 4 or attribute(node, "axis", 0) % 4 != 1:
        return None
    strides = {tuple(steps.get(axis, (0, 1, 0))[1] for axis in (2, 3)) for _, _, steps in pieces}
    if strides == {(1, 1)}:
        return None
    network.dtype(x)
    _, c, h, w = shape
    if len(strides) != 1 or max(max(s) for s in strides) > conv_stride():
        raise Refused(f"steps of {sorted(strides)}: one pair for all, at most {conv_stride()}")
    sh, sw = strides.pop()
    if h % sh or w % sw:
        raise Refused(f"{h} x {w} is not a multiple of the steps {sh} x {sw}")
    offsets: List[Tuple[int, int]] = []
    for _, _, steps in pieces:
        rows, columns = steps.get(2, (0, 1, h)), steps.get(3, (0, 1, w))
        if set(steps) - {2, 3} or rows[2] != h // sh or columns[2] != w // sw or rows[0] >= sh or columns[0] >= sw:
            raise Refused("a slice takes a part of the map")
        offsets.append((rows[0], columns[0]))

    def build(editor: Any) -> Any:
        weight = np.zeros((len(offsets) * c, c, sh, sw))
        for i, (row, column) in enumerate(offsets):
            weight[np.arange(c) + i * c, np.arange(c), row, column] = 1.0
        return editor.conv(x, editor.constant(weight, network.dtype(x), "taps"), strides=[sh, sw])

    slices = {id(n): n for _, nodes, _ in pieces for n in nodes}
    return Site(node.outputs[0], (*slices.values(), node), build)


def _slice(name: str, source: str, axis: int, start: int) -> str:
    return (
        f"s_{name} = Constant<value_ints = [{start}]>() e_{name} = Constant<value_ints = [9223372036854775807]>() "
        f"a_{name} = Constant<value_ints = [{axis}]>() p_{name} = Constant<value_ints = [2]>() "
        f"{name} = Slice({source}, s_{name}, e_{name}, a_{name}, p_{name}) "
    )


_ROWS = _slice("r0", "x", 2, 0) + _slice("r1", "x", 2, 1)
_FOUR = _ROWS + "".join(_slice(f"q{i}{j}", f"r{i}", 3, j) for j in (0, 1) for i in (0, 1))

REWRITE = Rewrite(
    "focus",
    ("Concat",),
    match,
    (
        holds("x 1x3x8x6", _FOUR + "y = Concat<axis = 1>(q00, q10, q01, q11)"),
        holds("x 1x3x8x6", _ROWS + "y = Concat<axis = 1>(r1, r0)"),
        refuses("x 1x3x7x6", _slice("a", "x", 2, 0) + _slice("b", "x", 2, 0) + "y = Concat<axis = 1>(a, b)", "multiple"),
        no_pattern("x 1x3x8x6", _ROWS + "y = Concat<axis = 2>(r0, r1)"),
        no_pattern("x 1x3x8x6", _ROWS + "t = Relu(r1) y = Concat<axis = 1>(r0, t)"),
    ),
)
