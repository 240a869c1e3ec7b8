"""Nodes that return their input: Concat of one tensor, Identity, Dropout, a Reshape, Cast or Slice that changes nothing."""

from __future__ import annotations

from typing import Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    x, output = node.inputs[0], node.outputs[0]
    if x is None or not _gives_back(network, node):
        return None
    if output.is_graph_output() and (network.producer(x) is None or x.is_graph_output()):
        raise Refused("it joins an input, a constant or another output of the model to this output")
    if len(node.outputs) > 1 and any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        raise Refused("its mask is read")
    return Site(output, (node,), lambda editor: x)


def _gives_back(network: Network, node: Node) -> bool:
    kind, x = node.op_type, node.inputs[0]
    shape = network.shape(x)
    if kind == "Identity":
        return True
    if kind == "Concat":
        return len(node.inputs) == 1
    if kind == "Dropout":
        training = network.constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else False
        return training is not None and not bool(np.all(training))
    if kind == "Cast":
        return x is not None and x.dtype is not None and attribute(node, "to", None) == int(x.dtype)
    if shape is None:
        return False
    if kind == "Transpose":
        return attribute(node, "perm", None) == list(range(len(shape)))
    if kind == "Slice" and len(node.inputs) > 4 and node.inputs[4] is not None:
        steps = network.constant(node.inputs[4])
        if steps is None or np.any(steps < 0):
            # It may turn an axis around.
            return False
    return network.shape(node.outputs[0]) == shape


REWRITE = Rewrite(
    "no-ops",
    ("Identity", "Concat", "Dropout", "Cast", "Transpose", "Reshape", "Flatten", "Expand", "Slice"),
    match,
    (
        holds("x 1x8x4x4", "r = Relu(x) c = Concat<axis = 1>(r) y = Relu(c)"),
        holds("x 1x8x4x4", "r = Relu(x) y = Identity(r)"),
        holds("x 1x8x4x4", "r = Relu(x) d = Dropout(r) y = Relu(d)"),
        holds("x 1x8x4x4", "r = Relu(x) d = Cast<to = 1>(r) y = Relu(d)"),
        holds("x 1x8x4x4", "r = Relu(x) s = Constant<value_ints = [1, 8, 4, 4]>() d = Reshape(r, s) y = Relu(d)"),
        holds(
            "x 1x8x4x4",
            "r = Relu(x) s = Constant<value_ints = [0]>() e = Constant<value_ints = [8]>() "
            "a = Constant<value_ints = [1]>() d = Slice(r, s, e, a) y = Relu(d)",
        ),
        no_pattern(
            "x 1x8x4x4",
            "s = Constant<value_ints = [-1]>() e = Constant<value_ints = [-9]>() "
            "a = Constant<value_ints = [1]>() p = Constant<value_ints = [-1]>() y = Slice(x, s, e, a, p)",
        ),
        refuses("x 1x8x4x4", "y = Identity(x)", "joins an input"),
        no_pattern("x 1x8x4x4", "y = Concat<axis = 1>(x, x)"),
        no_pattern("x 1x8x4x4", "y = Transpose<perm = [0, 1, 3, 2]>(x)"),
    ),
)
