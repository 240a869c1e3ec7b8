"""RNN, GRU, LSTM and CumSum: loops of TensorRT layers."""

from __future__ import annotations

from typing import Any, List

from edgedla.importers.context import Context
from edgedla.importers.node import Node
from edgedla.importers.refuse import CannotTell


def cum_sum(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    raise CannotTell("no lowering yet")


def rnn(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    raise CannotTell("no lowering yet")


gru = lstm = rnn
