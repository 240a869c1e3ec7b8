"""Rounds values while a module's forward runs, as the DLA stores and reads them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np
import torch
from torch import nn

from edgedla.torch.calls import CallMode, Key, Paths, tensors_in
from edgedla.torch.qat.places import Place, Places, Stored
from edgedla.torch.qat.rounding import round_half, round_weight, rounded_weight

#: Functions whose second tensor is a weight in INT8 -> axis of its output channels.
WEIGHT_AXIS: Mapping[str, int] = {
    "conv1d": 0, "conv2d": 0, "conv3d": 0, "linear": 0, "conv_transpose1d": 1, "conv_transpose2d": 1,
    "conv_transpose3d": 1, "matmul": -1, "__matmul__": -1,
}  # fmt: skip
#: Functions whose numbers become constants that the DLA rounds to FP16, where it computes in FP16.
_WITH_NUMBERS = frozenset("add add_ sub sub_ rsub mul mul_ div div_ __add__ __sub__ __mul__ __truediv__".split())
Rounding = Callable[[torch.Tensor, Stored], torch.Tensor]


class RoundingMode(CallMode):
    """Args:
    round_int8: rounds a tensor with the range of its ONNX name, and may note what it saw.
    training: BatchNormalization keeps its own statistics, so it is not merged into the convolution before it.
    """

    def __init__(self, paths: Paths, module: nn.Module, places: Places, round_stored: Rounding, training: bool) -> None:
        super().__init__(paths)
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
        norm = self.places.folded.get(key)
        if norm is not None:
            self.merged[norm] = place_here
            if not self.training:
                args, kwargs = self._folded(key, norm, place_here, args, kwargs)
                return func(self._read(args[0], place_here.mode, None), *args[1:], **kwargs)
        args = tuple(self._read(a, place_here.mode, _slot(key, i)) for i, a in enumerate(args))
        kwargs = {name: self._read(v, place_here.mode, _slot(key, name)) for name, v in kwargs.items()}
        result = func(*args, **kwargs)
        return result if norm is not None else self._store(result, place_here)

    def _read(self, value: Any, mode: str, axis: Optional[int]) -> Any:
        """An argument as the call reads it: a copy rounded to its mode, where it is stored otherwise."""
        if isinstance(value, (list, tuple)):
            return type(value)(self._read(v, mode, None) for v in value) if _plain(value) else value
        if mode not in ("int8", "fp16") or not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return _half_number(value) if mode == "fp16" and axis == _NUMBER else value
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
        """The convolution's arguments with the BatchNormalization after it in weight and bias."""
        batch_norm = self.module.get_submodule(norm[0])
        values: List[Any] = list(args)
        weight = values[1] if len(values) > 1 else kwargs["weight"]
        bias = values[2] if len(values) > 2 else kwargs.get("bias")
        axis = WEIGHT_AXIS[key[1]]
        if place.mode == "int8":
            weight = rounded_weight(weight, axis)
        weight, bias = fold(weight, bias, batch_norm, axis, place.mode)
        rest = {name: v for name, v in kwargs.items() if name not in ("weight", "bias")}
        return (values[0], weight, bias, *values[3:]), rest


def fold(
    weight: torch.Tensor, bias: Optional[torch.Tensor], norm: Any, axis: int, mode: str
) -> Tuple[torch.Tensor, torch.Tensor]:
    """w' = w g / sqrt(v + eps), b' = (b - m) g / sqrt(v + eps) + beta; w' once more through the mode's rounding.

    Rounding one scale per channel is not moved by a factor per channel, so w' has the levels that w was trained with.
    """
    ones = torch.ones_like(norm.running_mean)
    factor = (norm.weight if norm.weight is not None else ones) / torch.sqrt(norm.running_var + norm.eps)
    shape = [1] * weight.dim()
    shape[axis] = -1
    folded = weight * factor.reshape(shape)
    moved = ((0 if bias is None else bias) - norm.running_mean) * factor
    moved = moved + (norm.bias if norm.bias is not None else 0)
    if mode == "int8":
        folded = rounded_weight(folded, axis)
    elif mode == "fp16":
        folded, moved = round_half(folded), round_half(moved)
    return folded, moved


_NUMBER = -100


def _slot(key: Key, position: Any) -> Optional[int]:
    """Axis of the output channels where the argument is a weight; _NUMBER where a number in it becomes a constant."""
    if position in (1, "weight") and key[1] in WEIGHT_AXIS:
        return WEIGHT_AXIS[key[1]]
    return _NUMBER if key[1] in _WITH_NUMBERS else None


def _half_number(value: Any) -> Any:
    return float(np.float16(value)) if isinstance(value, float) else value


def _plain(values: Any) -> bool:
    return type(values) in (list, tuple) and any(isinstance(v, torch.Tensor) for v in values)


def _passed_on(result: Any, args: Tuple[Any, ...]) -> Any:
    """A call that the exported network does not have (Dropout): its result is stored as what it was given."""
    if isinstance(result, torch.Tensor) and not hasattr(result, "edgedla_stored"):
        source = next((a for a in args if hasattr(a, "edgedla_stored")), None)
        if source is not None:
            result.edgedla_stored = source.edgedla_stored  # type: ignore[attr-defined]
    return result
