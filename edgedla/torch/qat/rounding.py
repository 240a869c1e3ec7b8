"""INT8 and FP16 rounding as the host backend does it, with gradients to train through.

Activations: q = clamp(round(x / s (1 + 2^-22)), -128, 127), y = q s, one s a tensor: halves go away from zero (the factor
moves them; edgedla/builder/host/rounding.py). Weights: s_k = max |w_k| / 127 of output channel k, halves away from
zero (edgedla/formats/pack.py).
"""

from __future__ import annotations

from typing import Any, Tuple

import torch

LEVELS = 127.0
_AWAY = 1 + 2.0**-22
_HALF = 0.49999997  # the FP32 number before 0.5: with 0.5 itself 0.49999997 would become 1


class _RoundInt8(torch.autograd.Function):
    """Straight through where x lies in range. The scale's gradient is that of LSQ (Esser et al., 2020):

    dy/ds = round(x / s) - x / s in range, -128 or 127 outside, times 1 / sqrt(127 n) for n elements.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        away = (scale.double() / _AWAY).float()
        levels = (x.float() / away).round_().clamp_(-128.0, LEVELS)
        ctx.save_for_backward(x, scale)
        return (levels * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple[Any, Any]:
        x, scale = ctx.saved_tensors
        ratio = x.float() / scale
        inside = (ratio >= -128.5) & (ratio <= LEVELS + 0.5)
        to_x = grads[0] * inside if ctx.needs_input_grad[0] else None
        to_scale = None
        if ctx.needs_input_grad[1]:
            slope = torch.where(inside, ratio.round() - ratio, ratio.clamp(-128.0, LEVELS))
            to_scale = (grads[0].float() * slope).sum() / (LEVELS * x.numel()) ** 0.5
        return to_x, to_scale


class _RoundHalf(torch.autograd.Function):
    """Through FP16 and back; straight through. What exceeds 65504 becomes infinite, as on the DLA."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.half().to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0]


class _RoundWeight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, axis: int) -> torch.Tensor:
        return rounded_weight(weight, axis)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple[torch.Tensor, None]:
        return grads[0], None


def round_int8(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """x through INT8 with an FP32 scale of no dims."""
    result: torch.Tensor = _RoundInt8.apply(x, scale)
    return result


def round_half(x: torch.Tensor) -> torch.Tensor:
    """x through FP16."""
    result: torch.Tensor = _RoundHalf.apply(x)
    return result


def round_weight(weight: torch.Tensor, axis: int) -> torch.Tensor:
    """Weights through INT8, one scale for each slice along `axis`, with a straight gradient."""
    result: torch.Tensor = _RoundWeight.apply(weight, axis)
    return result


def rounded_weight(weight: torch.Tensor, axis: int) -> torch.Tensor:
    """The same without a gradient. A channel of zeros stays as it is."""
    values = weight.detach().float()
    dims = [d for d in range(values.dim()) if d != axis % values.dim()]
    absmax = values.abs().amax(dim=dims, keepdim=True)
    # In FP64 and then FP32, as the host backend divides.
    scale = (absmax.double() / LEVELS).float()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    ratio = (values / scale).clamp_(-128.0, LEVELS)
    return ((ratio + torch.copysign(torch.full_like(ratio, _HALF), ratio)).trunc_() * scale).to(weight.dtype)
