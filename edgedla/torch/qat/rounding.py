"""INT8 and FP16 rounding like the host backend's, with gradients for training.

Activations: q = clamp(round(x / s (1 + 2^-22)), -128, 127), y = q s, one s per tensor. The factor makes halves round away
from zero (edgedla/builder/host/rounding.py). Weights: s_k = max |w_k| / 127 for output channel k; halves round away from
zero (edgedla/formats/pack.py).
"""

from __future__ import annotations

from typing import Any, Tuple

import torch

LEVELS = 127.0
_AWAY = 1 + 2.0**-22
_FAR = 1e9  # beyond every range that FP16 and INT8 layers have
_HALF = 0.49999997  # the FP32 number before 0.5: with 0.5 itself 0.49999997 would become 1


def over(x: torch.Tensor, divisor: float) -> torch.Tensor:
    """x / divisor, rounded once on every device: by a plain number CUDA multiplies with its reciprocal, up to a bit off."""
    return x / torch.full_like(x, divisor)


class _RoundInt8(torch.autograd.Function):
    """Rounds to INT8, with a straight-through gradient in range. The scale's gradient is LSQ's (Esser et al., 2020):

    dy/ds = (y - x) / s in range, -128 or 127 outside, times 1 / sqrt(127 n) for n elements.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor, exact: bool) -> torch.Tensor:
        # FP16 turns values above 65504 into infinities. The fused kernel would map both to -128, with a gradient of 0 times infinity.
        x = x.clamp(-_FAR, _FAR)
        # The result is not saved, because later operations may write into it.
        ctx.save_for_backward(x, scale)
        away = over(scale.double(), _AWAY).float()
        if not exact:
            return _fused(x, away)[0]
        levels = (x.float() / away).round_().clamp_(-128.0, LEVELS)
        return (levels * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple[Any, Any, None]:
        x, scale = ctx.saved_tensors
        result, inside = _fused(x, over(scale.double(), _AWAY).float())
        to_x = grads[0] * inside
        to_scale = None
        if ctx.needs_input_grad[1]:
            # Sum of dy (y - x) in range and dy y outside, as two sums: the tensors are large, and each pass over them costs time.
            to_scale = (_inner(grads[0], result) - _inner(to_x, x)) / scale / (LEVELS * x.numel()) ** 0.5
        return to_x if ctx.needs_input_grad[0] else None, to_scale, None


def _fused(x: torch.Tensor, scale: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """(x through INT8, whether x is in range) in one kernel and without waiting for the device. x must be finite."""
    zero, on = torch.zeros_like(scale, dtype=torch.int32), torch.ones_like(scale, dtype=torch.int64)
    result, inside = torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        x.float(), scale, zero, on, -128, int(LEVELS)
    )
    return result.to(x.dtype), inside


def _inner(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Sum of the products in FP32, in one pass if both have the same memory layout."""
    dense = a.is_contiguous() or a.is_contiguous(memory_format=torch.channels_last)
    if dense and a.stride() == b.stride() and a.dtype == b.dtype == torch.float32:
        return torch.dot(a.as_strided((a.numel(),), (1,)), b.as_strided((b.numel(),), (1,)))
    return (a.float() * b.float()).sum()


class _RoundHalf(torch.autograd.Function):
    """Rounds through FP16, with a straight-through gradient. Values above 65504 become infinite, as on the DLA."""

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


def round_int8(x: torch.Tensor, scale: torch.Tensor, exact: bool = True) -> torch.Tensor:
    """x through INT8 with a scalar FP32 scale.

    Args:
        exact: bit for bit what the host backend stores. False is faster (one kernel of PyTorch), but may round otherwise if x
            is within a few units in the last place of a half, and its results are smaller by 2^-22 (relative).
    """
    result: torch.Tensor = _RoundInt8.apply(x, scale, exact)
    return result


def round_half(x: torch.Tensor) -> torch.Tensor:
    """x through FP16."""
    result: torch.Tensor = _RoundHalf.apply(x)
    return result


def round_weight(weight: torch.Tensor, axis: int) -> torch.Tensor:
    """Weights through INT8, one scale per slice along `axis`, with a straight-through gradient."""
    result: torch.Tensor = _RoundWeight.apply(weight, axis)
    return result


def rounded_weight(weight: torch.Tensor, axis: int) -> torch.Tensor:
    """`round_weight` without a gradient. A channel of zeros stays zero."""
    values = weight.detach().float()
    dims = [d for d in range(values.dim()) if d != axis % values.dim()]
    absmax = values.abs().amax(dim=dims, keepdim=True)
    # Computed in FP64, then rounded to FP32, as the host backend does.
    scale = over(absmax.double(), LEVELS).float()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    ratio = (values / scale).clamp_(-128.0, LEVELS)
    return ((ratio + torch.copysign(torch.full_like(ratio, _HALF), ratio)).trunc_() * scale).to(weight.dtype)
