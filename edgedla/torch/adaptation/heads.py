"""Flatten and Linears at the end of a classifier as convolutions: N x C x H x W stays four-dimensional to the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Set, Tuple

from torch import nn

from edgedla.fixes.rewrites.limits import kernel
from edgedla.torch.adaptation.observing import ObservedCall
from edgedla.torch.adaptation.rewrites import Refused

#: Functions on single elements, which work in two dimensions as in four.
_ELEMENTWISE = frozenset(
    "relu relu_ hardswish hardswish_ hardsigmoid sigmoid tanh silu silu_ gelu dropout dropout_ hardtanh hardtanh_ relu6 "
    "leaky_relu leaky_relu_ mul clamp feature_dropout".split()
)
_FLATTENING = frozenset("flatten mean reshape view squeeze".split())


@dataclass(frozen=True)
class Head:
    """A flatten and the Linears after it.

    Attributes:
        flatten: index of the call that drops H and W. linears: (index of the call, its input's C x H x W).
        last: index of the call whose result is the network's output.
    """

    flatten: int
    linears: Tuple[Tuple[int, Tuple[int, int, int]], ...]
    last: int


def find_head(calls: Sequence[ObservedCall], outputs: Set[int], module: nn.Module) -> Optional[Head]:
    """The flatten before the Linears that end in an output; None if there is none.

    Raises:
        Refused: there is one, but it cannot be changed.
    """
    readers: Dict[int, List[int]] = {}
    for i, call in enumerate(calls):
        for source in call.reads:
            if source is not None:
                readers.setdefault(source, []).append(i)
    for i, call in enumerate(calls):
        shape = call.shapes[0] if call.shapes else ()
        if call.function in _FLATTENING and len(shape) == 4 and call.result is not None and len(call.result) == 2:
            head = _follow(calls, readers, outputs, module, i)
            if head is not None:
                return head
    return None


def _follow(
    calls: Sequence[ObservedCall], readers: Dict[int, List[int]], outputs: Set[int], module: nn.Module, flatten: int
) -> Optional[Head]:
    shape = calls[flatten].shapes[0]
    size = (int(shape[1]), int(shape[2]), int(shape[3])) if calls[flatten].function != "mean" else (int(shape[1]), 1, 1)
    linears: List[Tuple[int, Tuple[int, int, int]]] = []
    now = flatten
    while now not in outputs:
        following = readers.get(now, [])
        if len(following) != 1:
            if linears or any(calls[f].function == "linear" for f in following):
                raise Refused(f"{len(following)} calls read what {calls[now].call} gives")
            return None
        now = following[0]
        call = calls[now]
        if call.function == "linear":
            if not isinstance(module.get_submodule(call.key[0]), nn.Linear):
                raise Refused(f"{call.call} is not an nn.Linear of its own")
            if max(size[1:]) > kernel():
                raise Refused(f"{size[1]} x {size[2]} is above {kernel()}, the largest kernel of a convolution")
            linears.append((now, size))
            assert call.result is not None
            size = (int(call.result[-1]), 1, 1)
        elif call.function not in _ELEMENTWISE or (call.function == "mul" and len(call.shapes) > 1):
            if linears:
                raise Refused(f"{call.call} works on two dimensions")
            return None
    return Head(flatten, tuple(linears), now) if linears else None
