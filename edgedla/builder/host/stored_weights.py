"""Weights as the DLA stores them, in float again."""

from __future__ import annotations

import numpy as np

from edgedla.formats.pack import dequantize, quantize
from edgedla.quantization.calibration_cache import INT8_MAX


def quantize_weights(values: np.ndarray, axis: int) -> np.ndarray:
    """Weights through INT8 and back: w' = s_k * q(w / s_k), s_k = max |w| of output channel k / 127."""
    moved = np.moveaxis(values, axis, 0)
    channels = np.ascontiguousarray(moved, np.float32).reshape(len(moved), -1)
    absmax = np.abs(channels).max(1, initial=0.0).astype(np.float64)
    used = np.isfinite(absmax) & (absmax > 0)
    scales = np.where(used, absmax / INT8_MAX, 1.0)[:, None]
    # A channel that is all zero, or holds NaN or infinity, stays unchanged.
    result = np.where(used[:, None], dequantize(quantize(channels, scales), scales), channels)
    return np.moveaxis(result.reshape(moved.shape), 0, axis)


def fp16_weights(values: np.ndarray) -> np.ndarray:
    """Weights through FP16 and back; infinite where FP16 cannot hold one."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)
