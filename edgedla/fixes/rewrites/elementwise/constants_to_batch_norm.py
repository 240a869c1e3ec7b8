"""Mul, Add, Sub and Div of a 4-D tensor by a number or one number per channel, as BatchNormalization.

A CONSTANT layer fails a strict or standalone build. Neighbours merge into one."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

OPERATORS = ("Mul", "Add", "Sub", "Div")


def match(network: Network, node: Node) -> Optional[Site]:
    step = _step(network, node)
    if step is None:
        return None
    reader = network.only_reader(node.outputs[0])
    if reader is not None and reader.op_type in OPERATORS and _quietly(network, reader) is not None:
        # The last of a chain takes the others with it.
        return None
    chain: List[Tuple[Any, Any, bool]] = [(node, *step[1:])]
    x = step[0]
    while True:
        previous = network.producer(x, *OPERATORS)
        earlier = None if previous is None or network.only_reader(x) is None else _quietly(network, previous)
        if earlier is None:
            break
        x = earlier[0]
        chain.insert(0, (previous, *earlier[1:]))
    _, channels, _, _ = network.nchw(x)
    dtype = network.dtype(x)

    def fold(*constants: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        # In the precision of the network, so that a single operation keeps its bits.
        scale, bias = np.ones(channels, dtype), np.zeros(channels, dtype)
        for (op, _, swapped), constant in zip(chain, constants):
            c = np.broadcast_to(constant.reshape(-1), (channels,)).astype(dtype)
            if op.op_type == "Mul":
                scale, bias = scale * c, bias * c
            elif op.op_type == "Div":
                scale, bias = scale / c, bias / c
            elif op.op_type == "Add":
                bias = bias + c
            else:
                scale, bias = (-scale, c - bias) if swapped else (scale, bias - c)
        return scale, bias

    def build(editor: Any) -> Any:
        read = [constant for _, constant, _ in chain]
        scale = editor.derived(read, (channels,), lambda *c: fold(*c)[0], "scale")
        bias = editor.derived(read, (channels,), lambda *c: fold(*c)[1], "bias")
        return editor.batch_norm(x, scale, bias, channels)

    return Site(node.outputs[0], tuple(op for op, _, _ in chain), build)


def _quietly(network: Network, node: Node) -> Optional[Tuple[Any, Any, bool]]:
    try:
        return _step(network, node)
    except Refused:
        return None


def _step(network: Network, node: Node) -> Optional[Tuple[Any, Any, bool]]:
    """(the tensor, the constant, whether the constant stands first) of one operation."""
    if len(node.inputs) != 2:
        return None
    constant = [network.is_constant(v) for v in node.inputs]
    if constant[0] == constant[1]:
        return None
    operand, x = (node.inputs[0], node.inputs[1]) if constant[0] else (node.inputs[1], node.inputs[0])
    shape = network.shape(x)
    if shape is None or len(shape) != 4 or network.shape(node.outputs[0]) != shape:
        return None
    if node.op_type == "Div" and constant[0]:
        raise Refused("a constant divided by a tensor is not a scale and offset")
    dims = network.weight_shape(operand)
    if int(np.prod(dims)) != 1 and (1,) * (4 - len(dims)) + dims != (1, shape[1], 1, 1):
        raise Refused(f"the constant has the shape {list(dims)}: only one number, or one per channel, is a scale and offset")
    return x, operand, constant[0]


REWRITE = Rewrite(
    "constants-to-batch-norm",
    OPERATORS,
    match,
    (
        holds("x 1x8x4x4, w 8x1x1", "y = Mul(x, w)"),
        holds("x 1x8x4x4, w 1x8x1x1, wb 1", "m = Mul(w, x) y = Sub(m, wb)"),
        holds("x 1x8x4x4, w 1", "y = Sub(w, x)"),
        holds("x 1x8x4x4, w 1x1x1x1", "y = Div(x, w)"),
        refuses("x 1x8x4x4, w 1x8x4x4", "y = Add(x, w)", "one per channel"),
        refuses("x 1x8x4x4, w 1", "y = Div(w, x)", "divided by a tensor"),
        no_pattern("x 1x8x4x4, v 1x8x4x4", "y = Add(x, v)"),
        no_pattern("x 1x8x4, w 1", "y = Add(x, w)"),
    ),
)
