"""Rounds values during a module's forward where the DLA stores and reads them."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import numpy as np
import torch
from torch import nn

from edgedla.errors import ModelError
from edgedla.torch.calls import CallMode, Key, Paths, tensors_in, user_place
from edgedla.torch.qat.places import Place, Places, Stored
from edgedla.torch.qat.rounding import LEVELS, over, round_half, round_weight, rounded_weight

#: Functions whose second tensor is an INT8 weight -> axis of its output channels.
WEIGHT_AXIS: Mapping[str, int] = {
    "conv1d": 0,
    "conv2d": 0,
    "conv3d": 0,
    "linear": 0,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
    "matmul": -1,
    "__matmul__": -1,
}
#: The file whose frame lies between the module's forward and its caller.
_FORWARD = os.path.join(os.path.dirname(__file__), "module.py")
#: Functions whose Python numbers become constants, which the DLA rounds to FP16 if it computes in FP16.
_WITH_NUMBERS = frozenset("add add_ sub sub_ rsub mul mul_ div div_ __add__ __sub__ __mul__ __truediv__".split())
Rounding = Callable[[torch.Tensor, Stored], torch.Tensor]


class RoundingMode(CallMode):
    """Args:
    round_stored: rounds a tensor as the DLA stores it, given its ONNX name; it may also record what it sees.
    training: BatchNormalization uses batch statistics, so it is not merged into the convolution before it.
    scale_of: ONNX name -> scale, if INT8 products are summed as integers.
    comparing: refuse a call that stands at another line than when the module was prepared. It costs time for each call.
    """

    def __init__(
        self,
        paths: Paths,
        module: nn.Module,
        places: Places,
        round_stored: Rounding,
        training: bool,
        scale_of: Optional[Callable[[str], torch.Tensor]] = None,
        comparing: bool = False,
    ) -> None:
        super().__init__(paths)
        self.comparing = comparing
        self.scale_of = scale_of
        self.module, self.places = module, places
        self.round_stored, self.training = round_stored, training
        self.merged: Dict[Key, Place] = {}

    def on_call(self, key: Key, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        if key in self.merged:
            place = self.merged.pop(key)
            return self._store(func(*args, **kwargs) if self.training else args[0], place)
        place_here = self.places.by_call.get(key)
        if place_here is None:
            return _passed_on(func(*args, **kwargs), args)
        if self.comparing:
            self._compare(key)
        norm = self.places.folded.get(key)
        if norm is not None:
            self.merged[norm] = place_here
            if not self.training:
                args, kwargs = self._folded(key, norm, place_here, args, kwargs)
                read = (self._read(args[0], place_here.mode, None), *args[1:])
                return self._call(key, func, place_here.mode, args[0], read, kwargs)
        read = tuple(self._read(a, place_here.mode, _slot(key, i)) for i, a in enumerate(args))
        kwargs = {name: self._read(v, place_here.mode, _slot(key, name)) for name, v in kwargs.items()}
        result = self._call(key, func, place_here.mode, args[0] if args else None, read, kwargs)
        return result if norm is not None else self._store(result, place_here)

    def resumed(self, rounding_again: Callable[[bool], Rounding]) -> Callable[..., Callable[..., Any]]:
        """Makes, from a function that is called now, one that computes it again later with the same rounding.

        Args:
            rounding_again: round_stored without what must happen once only; given True, in a graph of its own.
        """

        def resume(function: Callable[..., Any], own_graph: bool = False) -> Callable[..., Any]:
            stack, counts, merged = list(self.paths.stack), dict(self.counts), dict(self.merged)

            def run(*args: Any, **kwargs: Any) -> Any:
                paths = Paths(self.module)
                paths.stack = list(stack)
                rounding = rounding_again(own_graph)
                mode = RoundingMode(paths, self.module, self.places, rounding, self.training, self.scale_of)
                mode.counts, mode.merged = dict(counts), dict(merged)
                with paths, mode:
                    return function(*args, **kwargs)

            return run

        return resume

    def _compare(self, key: Key) -> None:
        """Calls are numbered, so one that only training makes would shift the places of those behind it."""
        before = self.places.calls[key]
        # A generated forward (torch.fx) has no lines; its caller's say nothing.
        file, line, _ = user_place(sys._getframe(3), within=_FORWARD)
        if before.file and file and (file, line) != (before.file, before.line):
            raise ModelError(
                f"in this forward {before} is another call: {os.path.basename(file)}:{line}",
                hint="prepare the network without what only training or only evaluation computes (losses, decoding of boxes)",
            )

    def _call(
        self, key: Key, func: Callable[..., Any], mode: str, source: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
    ) -> Any:
        """Calls a function on arguments as read; sums integers if requested and if the host backend does for this call.

        Args:
            source: the first argument before it was read.
        """
        stored = getattr(source, "edgedla_stored", None)
        scale_of = self.scale_of
        if scale_of is not None and key[1] in _AS_EXPORTED:
            return _AS_EXPORTED[key[1]](args[0])
        if scale_of is None or key[1] not in _SUMS or mode != "int8" or stored is None or stored.state == "inner":
            return func(*args, **kwargs)
        # ONNX has Gemm only for rows with a bias; the others become MatMul, which the host backend sums in FP32.
        if key[1] == "linear" and (source.dim() != 2 or (len(args) < 3 and kwargs.get("bias") is None)):
            return func(*args, **kwargs)
        return integer_sum(func, scale_of(stored.tensor), args, kwargs)

    def _read(self, value: Any, mode: str, axis: Optional[int]) -> Any:
        """An argument as the call reads it: if it is stored in another mode, a copy rounded to the call's mode."""
        if isinstance(value, (list, tuple)):
            return type(value)(self._read(v, mode, None) for v in value) if _plain(value) else value
        if mode not in ("int8", "fp16") or not isinstance(value, torch.Tensor) or not value.is_floating_point():
            half = mode == "fp16" and axis == _NUMBER and isinstance(value, float)
            return float(np.float16(value)) if half else value
        stored = getattr(value, "edgedla_stored", None)
        if stored is not None:
            if stored.state in ("inner", mode):
                return value
            return self.round_stored(value, Stored(mode, stored.tensor))
        if mode == "fp16":
            return round_half(value)
        return value if axis is None or axis == _NUMBER or value.dim() < 2 else round_weight(value, axis)

    def _store(self, result: Any, place: Place) -> Any:
        tensors = list(tensors_in(result))
        if len(tensors) == 1 and isinstance(result, torch.Tensor):
            return self._stored(result, place.outputs[0])
        if len(tensors) != len(place.outputs):
            return result
        return type(result)(self._stored(t, s) for t, s in zip(tensors, place.outputs))

    def _stored(self, tensor: torch.Tensor, stored: Stored) -> torch.Tensor:
        result = self.round_stored(tensor, stored) if stored.state in ("int8", "fp16") else tensor
        if result is tensor and hasattr(tensor, "edgedla_stored"):
            result = tensor.view_as(tensor)
        result.edgedla_stored = stored  # type: ignore[attr-defined]
        return result

    def _folded(
        self, key: Key, norm: Key, place: Place, args: Tuple[Any, ...], kwargs: Dict[str, Any]
    ) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        """The convolution's arguments with the following BatchNormalization merged into weight and bias."""
        weight, bias, rest = operands(args, kwargs)
        weight, bias = fold(weight, bias, self.module.get_submodule(norm[0]), WEIGHT_AXIS[key[1]], place.mode)
        return (args[0], weight, bias, *args[3:]), rest


def operands(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[torch.Tensor, Optional[torch.Tensor], Dict[str, Any]]:
    """(weight, bias, the other keywords) of a convolution's or linear call."""
    weight = args[1] if len(args) > 1 else kwargs["weight"]
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    return weight, bias, {name: v for name, v in kwargs.items() if name not in ("weight", "bias")}


def fold(
    weight: torch.Tensor, bias: Optional[torch.Tensor], norm: Any, axis: int, mode: str
) -> Tuple[torch.Tensor, torch.Tensor]:
    """w' = w g / sqrt(v + eps), b' = (b - m) g / sqrt(v + eps) + beta; in INT8 w is rounded before, and w' again.

    With one scale per channel, a factor per channel does not change the levels, so w' has the levels w was trained with.
    """
    if mode == "int8":
        weight = rounded_weight(weight, axis)
    ones = torch.ones_like(norm.running_mean)
    # Computed in FP64, then rounded to FP32: CPU and GPU get the same numbers.
    gain = (norm.weight if norm.weight is not None else ones).double()
    factor = gain / torch.sqrt(norm.running_var.double() + norm.eps)
    shape = [1] * weight.dim()
    shape[axis] = -1
    folded = (weight.double() * factor.reshape(shape)).float()
    moved = ((0 if bias is None else bias) - norm.running_mean.double()) * factor
    moved = (moved + (norm.bias if norm.bias is not None else 0)).float()
    if mode == "int8":
        folded = rounded_weight(folded, axis)
    elif mode == "fp16":
        folded, moved = round_half(folded), round_half(moved)
    return folded, moved


def _hard_sigmoid(x: torch.Tensor) -> torch.Tensor:
    """ONNX HardSigmoid with alpha 1/6 in FP32: PyTorch divides by 6, which differs in the last place."""
    return (x * float(np.float32(1 / 6)) + 0.5).clamp(0.0, 1.0)


#: Functions that PyTorch computes in another order than the operators it exports.
_AS_EXPORTED: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "hardsigmoid": _hard_sigmoid,
    "hardswish": lambda x: x * _hard_sigmoid(x),
}
#: Functions that the host backend sums as integers (edgedla/builder/host/accumulation.py).
_SUMS = frozenset({"conv1d", "conv2d", "conv3d", "linear"})


def integer_sum(func: Callable[..., Any], scale: torch.Tensor, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> torch.Tensor:
    """y = s_x s_k * sum(q_x q_w) + bias with an exact sum: the host backend's result, on any device.

    Args:
        scale: s_x. args, kwargs: of `func`: values of the form q_x s_x, and a rounded weight.
    """
    weight, bias, rest = operands(args, kwargs)
    weight = weight.double()
    largest = weight.abs().flatten(1).amax(1)
    # Divided in FP32, then widened to FP64, as the host backend does.
    scales = torch.where(largest > 0, over(largest.float(), LEVELS), torch.ones_like(largest, dtype=torch.float32)).double()
    column = [-1, *[1] * (weight.dim() - 1)]
    levels, weight = torch.round(args[0] / scale), torch.round(weight / scales.reshape(column))
    # Below 2^24 a sum of integers is exact in FP32 too, in any order. Not on a GPU, whose algorithm may not be a plain sum.
    small = levels.device.type == "cpu" and float(weight.abs().flatten(1).sum(1).max()) * 128 < 2**24
    kind = torch.float32 if small else torch.float64
    total = torch.round(func(levels.to(kind), weight.to(kind), None, *args[3:], **rest)).float()
    # The channels are the last dim of rows, else dim 1, or dim 0 without a batch.
    column = [-1, *[1] * (weight.dim() - 2)]
    total = total * (scales * scale.double()).float().reshape(column)
    return total if bias is None else total + bias.reshape(column)


_NUMBER = -100


def _slot(key: Key, position: Any) -> Optional[int]:
    """Axis of the output channels if the argument is a weight; _NUMBER if a number in it becomes a constant."""
    if position in (1, "weight") and key[1] in WEIGHT_AXIS:
        return WEIGHT_AXIS[key[1]]
    return _NUMBER if key[1] in _WITH_NUMBERS else None


def _plain(values: Any) -> bool:
    return type(values) in (list, tuple) and any(isinstance(v, torch.Tensor) for v in values)


def _passed_on(result: Any, args: Tuple[Any, ...]) -> Any:
    """The result of a call that the exported network lacks (Dropout): stored like its input."""
    if isinstance(result, torch.Tensor) and not hasattr(result, "edgedla_stored"):
        source = next((a for a in args if hasattr(a, "edgedla_stored")), None)
        if source is not None:
            result.edgedla_stored = source.edgedla_stored  # type: ignore[attr-defined]
    return result
