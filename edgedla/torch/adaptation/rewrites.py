"""Rewrites of single calls: each replaces a call of one function by a module. To add one: a row.

A rewrite receives a call that the DLA refuses. It returns a Form, or raises Refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Mapping, Optional, Tuple

from torch import nn

from edgedla.fixes.rewrites.limits import kernel, pooling_window, resize_factor
from edgedla.fixes.rewrites.numbers import stages
from edgedla.torch.adaptation.forms import ChannelSlice, Enlarge, GlobalAverageConv, GlobalAveragePool, HardSigmoid, HardSwish
from edgedla.torch.adaptation.observing import ObservedCall, Shape


class Refused(Exception):
    """A rewrite exists for the call but does not apply, with the reason."""


@dataclass(frozen=True)
class Form:
    """The replacement of a call.

    Attributes:
        module: the replacing module. operand: index of the only argument that it replaces, so that the call itself stays;
            None if it replaces the whole call, with the call's first argument as its input.
        flat: the call drops H and W but the module keeps them, so a flatten follows.
        exact: same results, except for the order of rounding.
    """

    name: str
    module: nn.Module
    why: str
    operand: Optional[int] = None
    flat: bool = False
    exact: bool = True


Rewrite = Callable[[ObservedCall, str], Optional[Form]]


def _global_average(call: ObservedCall, precision: str) -> Optional[Form]:
    shape = _map_of(call)
    if shape is None or call.result is None or not _is_global(call, shape):
        return None
    height, width = shape[2:]
    flat = len(call.result) == 2
    windows = stages(height, width, pooling_window())
    fits = max(height, width) <= kernel()
    if fits and (precision == "int8" or not windows):
        why = "a depthwise convolution has an output scale of its own"
        return Form("global average", GlobalAverageConv(shape[1], (height, width)), why, flat=flat)
    if not windows:
        raise Refused(f"{height} x {width} exceeds a kernel of {kernel()} and has a prime factor above {pooling_window()}")
    return Form("global average", GlobalAveragePool(windows), "average poolings within the DLA's window", flat=flat)


def _is_global(call: ObservedCall, shape: Shape) -> bool:
    if call.function in ("adaptive_avg_pool2d", "avg_pool2d"):
        return call.result is not None and tuple(call.result[2:]) == (1, 1)
    dims = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
    if not isinstance(dims, (tuple, list)):
        return False
    return sorted(int(d) % len(shape) for d in dims) == [2, 3]


def _hard_sigmoid(call: ObservedCall, precision: str) -> Optional[Form]:
    why = "a clip after a scale and an offset, which merge into a convolution"
    return Form("hard sigmoid", HardSigmoid(_channels_of(call)), why)


def _hard_swish(call: ObservedCall, precision: str) -> Optional[Form]:
    return Form("hard swish", HardSwish(_channels_of(call)), "scale, clip and product are DLA layers")


def _channels_of(call: ObservedCall) -> int:
    shape = _map_of(call)
    if shape is None:
        raise Refused("it has no channels: its input is not N x C x H x W")
    return shape[1]


def _channel_gate(call: ObservedCall, precision: str) -> Optional[Form]:
    shapes = call.shapes
    if len(shapes) != 2 or any(len(s) != 4 for s in shapes) or shapes[0] == shapes[1]:
        return None
    gates = [i for i, s in enumerate(shapes) if tuple(s[2:]) == (1, 1)]
    if len(gates) != 1 or call.reads[gates[0]] is None:
        return None
    small, large = shapes[gates[0]], shapes[1 - gates[0]]
    if small[:2] != large[:2]:
        return None
    factors = stages(large[2], large[3], resize_factor())
    if factors is None:
        raise Refused(f"{large[2]} x {large[3]} has a prime factor above {resize_factor()}, the largest of a Resize")
    return Form("channel gate", Enlarge(factors[::-1]), "both sides of the product get one size", operand=gates[0])


def _channel_slice(call: ObservedCall, precision: str) -> Optional[Form]:
    shape = _map_of(call)
    where = call.args[1] if len(call.args) > 1 else None
    if shape is None or not isinstance(where, tuple) or len(where) != 2 or where[0] != slice(None):
        return None
    channels = where[1]
    if not isinstance(channels, slice) or channels.step not in (None, 1):
        raise Refused("only channels from a number to a number can be cut out")
    start, stop, _ = channels.indices(shape[1])
    if stop <= start:
        raise Refused("it holds no channel")
    return Form("channel slice", ChannelSlice(shape[1], start, stop), "a Split is a DLA layer")


def _map_of(call: ObservedCall) -> Optional[Shape]:
    """The shape of the first argument if it is N x C x H x W."""
    shapes = call.shapes
    return tuple(shapes[0]) if shapes and len(shapes[0]) == 4 else None


#: Function of PyTorch -> rewrite.
BY_FUNCTION: Mapping[str, Rewrite] = {
    "adaptive_avg_pool2d": _global_average,
    "avg_pool2d": _global_average,
    "mean": _global_average,
    "hardsigmoid": _hard_sigmoid,
    "hardsigmoid_": _hard_sigmoid,
    "hardswish": _hard_swish,
    "hardswish_": _hard_swish,
    "mul": _channel_gate,
    "mul_": _channel_gate,
    "__mul__": _channel_gate,
    "__rmul__": _channel_gate,
    "__imul__": _channel_gate,
    "add": _channel_gate,
    "add_": _channel_gate,
    "__add__": _channel_gate,
    "__getitem__": _channel_slice,
}


@dataclass(frozen=True)
class Exchange:
    """A replacement activation that needs training. `modules`: classes that it replaces; `why`: the gain on the DLA."""

    replace: Tuple[type, ...]
    by: Callable[[], nn.Module]
    why: str


#: Optional: (present activation, new activation) -> Exchange. These change what the network computes.
ACTIVATIONS: Dict[Tuple[str, str], Exchange] = {
    ("hardswish", "relu"): Exchange((nn.Hardswish,), nn.ReLU, "merges into the convolution; three stored tensors less"),
    ("silu", "relu"): Exchange((nn.SiLU,), nn.ReLU, "merges into the convolution; no sigmoid, which runs in FP16"),
    ("gelu", "relu"): Exchange((nn.GELU,), nn.ReLU, "merges into the convolution; the DLA has no GELU"),
    ("gelu", "silu"): Exchange((nn.GELU,), nn.SiLU, "a sigmoid and a product; the DLA has no GELU"),
    ("mish", "relu"): Exchange((nn.Mish,), nn.ReLU, "merges into the convolution; the DLA has no softplus"),
    ("mish", "silu"): Exchange((nn.Mish,), nn.SiLU, "a sigmoid and a product; the DLA has no softplus"),
    ("elu", "relu"): Exchange((nn.ELU, nn.SELU, nn.CELU), nn.ReLU, "merges into the convolution; the DLA has no ELU"),
    ("prelu", "leaky_relu"): Exchange((nn.PReLU,), lambda: nn.LeakyReLU(0.25), "a DLA activation with one slope"),
    ("sigmoid", "hardsigmoid"): Exchange((nn.Sigmoid,), nn.Hardsigmoid, "a clip runs in INT8, a sigmoid in FP16"),
}
