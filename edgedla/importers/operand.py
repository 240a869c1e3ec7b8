"""What a node's inputs are: weights, tensors of the network, or nothing."""

from __future__ import annotations

from typing import Optional, Union

from edgedla.importers.network.core import NetTensor
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights

#: What an operator reads: weights, or a tensor of the network.
Operand = Union[NetTensor, Weights]

#: What an ONNX tensor name refers to: an operand, or nothing (an optional input left out).
Value = Optional[Operand]


def operand(x: Value) -> Operand:
    """An input that the operator needs.

    Raises:
        Refused: it was left out.
    """
    if x is None:
        raise Refused("an input that the operator needs is missing")
    return x


def weights_in(x: Value) -> Weights:
    """An input that the parser takes as an initializer only.

    Raises:
        Refused: it is a tensor of the network, or was left out.
    """
    if not isinstance(x, Weights):
        raise Refused("an input that must be an initializer is not")
    return x
