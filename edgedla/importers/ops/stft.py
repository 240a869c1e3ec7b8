"""STFT: two convolutions, one for the real and one for the imaginary part of each frequency."""

from __future__ import annotations

from typing import List

from edgedla.importers.broadcast import squeeze, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.network import dense, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node
from edgedla.importers.operand import Value
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights


def stft(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """(batch, samples, 1) to (batch, frames, frequencies, 2), of a real signal."""
    x = ctx.tensor(inputs[0])
    step = _number(inputs, 1, "frame_step")
    window = inputs[2] if len(inputs) > 2 else None
    if window is not None and not isinstance(window, Weights):
        raise Refused("the window of STFT must be an initializer")
    length = _number(inputs, 3, "frame_length") if len(inputs) > 3 and inputs[3] is not None else 0
    if not length and window is not None:
        length = window.count
    if length < 1 or step < 1:
        raise Refused("STFT needs a frame_step, and a window or a frame_length")
    if len(x.dims) == 3:
        if x.dims[2] != 1:
            raise Refused("only real signals are supported in STFT")
        x = squeeze(ctx, x, [2])
    if len(x.dims) != 2:
        raise Refused(f"the signal of STFT must have rank 2 or 3, its rank is {len(x.dims)}")
    frequencies = length // 2 + 1 if node.integer("onesided", 1) else length
    x = unsqueeze(ctx, x, [1, 2])
    w = dense.Window([1, length], [1, step], [0, 0], [0, 0], [1, 1], [0, 0])
    parts: List[NetTensor] = []
    for _ in ("real", "imaginary"):
        parts.append(dense.convolution(ctx.net, [x], frequencies, w, 1, (frequencies, 1, 1, length), False))
    joined = shapes.concatenation(ctx.net, parts, 2)
    return [shapes.shuffle(ctx.net, joined, first=[0, 3, 1, 2])]


def _number(inputs: List[Value], index: int, what: str) -> int:
    given = inputs[index]
    if not isinstance(given, Weights) or given.count != 1:
        raise Refused(f"{what} of STFT must be an initializer of one number")
    return given.integers()[0]
