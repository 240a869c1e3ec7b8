"""GELU as an operator, and in the forms around Erf that exporters write."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Tuple

from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Node, Site

TOLERANCE = 1e-3

#: What exporters write in front of the two products, as ONNX's text form: `a` is 1 + erf(x / sqrt 2).
ERF = (
    "r = Constant<value_float = 1.4142135>() o = Constant<value_float = 1.0>() h = Constant<value_float = 0.5>() "
    "d = Div(x, r) e = Erf(d) a = Add(e, o) "
)


def gelu_as_sigmoid(argument: Callable[[Any, Any, int], Any]) -> Callable[[Network, Any], Optional[Site]]:
    """`match` of a rewrite to x sigmoid(argument(editor, x, channels))."""

    def match(network: Network, node: Node) -> Optional[Site]:
        gelu = gelu_of(network, node)
        if gelu is None:
            return None
        x, nodes, output = gelu
        _, channels, _, _ = network.nchw(x)
        network.dtype(x)
        return Site(output, nodes, lambda editor: editor.op("Mul", x, editor.op("Sigmoid", argument(editor, x, channels))))

    return match


def gelu_of(network: Network, node: Node) -> Optional[Tuple[Any, Tuple[Any, ...], Any]]:
    """(x, the nodes, the output) of x (1 + erf(x / sqrt 2)) / 2 around a Gelu or Erf node; None if the pattern differs."""
    if node.op_type == "Gelu":
        return node.inputs[0], (node,), node.outputs[0]
    scaling = network.producer(node.inputs[0], "Div", "Mul")
    plus = network.only_reader(node.outputs[0])
    if scaling is None or plus is None or plus.op_type != "Add" or _other(network, plus, node.outputs[0]) != 1.0:
        return None
    x = scaling.inputs[1] if network.is_constant(scaling.inputs[0]) else scaling.inputs[0]
    factor = _other(network, scaling, x)
    expected = math.sqrt(2.0) if scaling.op_type == "Div" else math.sqrt(0.5)
    if factor is None or abs(factor - expected) > TOLERANCE or (scaling.op_type == "Div" and scaling.inputs[0] is not x):
        return None
    return _product(network, x, plus, (scaling, node, plus))


def _product(network: Network, x: Any, plus: Any, nodes: Tuple[Any, ...]) -> Optional[Tuple[Any, Tuple[Any, ...], Any]]:
    """x, (1 + erf) and 1/2 multiplied in any order."""
    first = network.only_reader(plus.outputs[0])
    if first is None or first.op_type != "Mul":
        return None
    partner = first.inputs[1] if first.inputs[0] is plus.outputs[0] else first.inputs[0]
    if partner is not x and _is_half(network, first, plus.outputs[0]):
        # (1 + erf) / 2, times x.
        second = network.only_reader(first.outputs[0])
        if second is not None and second.op_type == "Mul" and any(v is x for v in second.inputs):
            return x, (*nodes, first, second), second.outputs[0]
        return None
    if partner is x:
        second = network.only_reader(first.outputs[0])
        if second is not None and second.op_type == "Mul" and _is_half(network, second, first.outputs[0]):
            return x, (*nodes, first, second), second.outputs[0]
        return None
    half = network.producer(partner, "Mul")
    if half is not None and any(v is x for v in half.inputs) and _is_half(network, half, x):
        return x, (*nodes, half, first), first.outputs[0]
    return None


def _is_half(network: Network, node: Node, operand: Any) -> bool:
    return _other(network, node, operand) == 0.5


def _other(network: Network, node: Node, operand: Any) -> Optional[float]:
    """The constant scalar that is the other operand; None if it is no constant scalar."""
    if len(node.inputs) != 2:
        return None
    other = node.inputs[1] if node.inputs[0] is operand else node.inputs[0]
    constant = network.constant(other)
    return float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None
