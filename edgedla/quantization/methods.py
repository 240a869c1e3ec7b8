"""Calibration methods: each maps a histogram of magnitudes to a threshold T; the scale is T / 127."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Callable, Dict, Mapping, Optional, Tuple

import numpy as np

from edgedla.errors import UsageError
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.collect import Collection
from edgedla.quantization.histogram import BINS, FINE_BINS, Histogram

DEFAULT = "auto"
#: Default percentile of `percentile`. `auto` never clips below it.
PERCENTILE = 99.99
_LEVELS = 128
#: Thresholds that least squares tries, as shares of the largest magnitude.
_SHARES = np.concatenate([np.geomspace(1 / 64, 0.25, 24, endpoint=False), np.linspace(0.25, 1.0, 72)])


def minmax(histogram: Histogram) -> float:
    """T = max |x|."""
    return histogram.absmax


def percentile(histogram: Histogram, percent: float = PERCENTILE) -> float:
    """The smallest T at or below which `percent` of the magnitudes lie, to one fine bin."""
    below = np.cumsum(histogram.counts)
    if not below[-1]:
        return histogram.absmax
    at = int(np.searchsorted(below, below[-1] * (percent / 100.0)))
    return min((at + 1) * histogram.top / FINE_BINS, histogram.absmax)


def squared_errors(histogram: Histogram, candidates: np.ndarray) -> np.ndarray:
    """Mean of (x - q(x))**2 for each threshold T, with q(x) = s * round(min(|x|, T) / s), s = T / 127.

    Level k holds the magnitudes from (k - 1/2) s to (k + 1/2) s; the last level holds all larger ones. The error of a
    level is S2 - 2 k s S1 + (k s)**2 S0, with S2, S1, S0 its sums of x**2, x and 1: differences of two prefix sums.
    """
    magnitude, counts = histogram.filled()
    total = counts.sum()
    if not total:
        return np.zeros(len(candidates))
    sums = [np.concatenate([[0.0], np.cumsum(counts * magnitude**n)]) for n in range(3)]
    scale = (np.asarray(candidates, np.float64) / INT8_MAX)[:, None]
    inner = np.searchsorted(magnitude, scale * (np.arange(1, _LEVELS) - 0.5))
    rows = len(scale)
    bounds = np.concatenate([np.zeros((rows, 1), int), inner, np.full((rows, 1), len(magnitude))], axis=1)
    s0, s1, s2 = (np.diff(s[bounds], axis=1) for s in sums)
    level = scale * np.arange(_LEVELS)
    errors: np.ndarray = np.maximum((s2 - 2 * level * s1 + level * level * s0).sum(axis=1), 0.0) / total
    return errors


def sqnr_db(histogram: Histogram, threshold: float) -> float:
    """Signal to quantisation noise of the tensor alone: 10 log10(mean x**2 / squared error); inf without an error."""
    noise, power = float(squared_errors(histogram, np.asarray([threshold]))[0]), histogram.power()
    if noise == 0.0:
        return math.inf
    return 10.0 * math.log10(power / noise) if power > 0 else -math.inf


def mse(histogram: Histogram) -> float:
    """T with the minimum squared error of clipping and rounding together."""
    candidates = histogram.absmax * _SHARES
    errors = squared_errors(histogram, candidates)
    # Of equal errors takes the largest T, which clips least.
    return float(candidates[len(errors) - 1 - int(np.argmin(errors[::-1]))])


def entropy(histogram: Histogram) -> float:
    """T with the minimum KL(P_T || Q_T), as in pytorch-quantization (calib/histogram.py, TensorRT 8.5 to 10.0).

    Of 2048 bins of |x|, T is the upper edge of bin i, with i from 128 to 2048. First, the count of bin 0 is set to that
    of bin 1, because zeros of a ReLU would dominate. P: the first i bins, with all mass above added to the last one.
    Q: the same bins without that mass, merged into 128 levels, each level's mass spread evenly over its non-empty bins.
    The divergence is infinite if P has mass in a bin where Q has none. Of equal divergences takes the largest T.

    TensorRT's own calibrator is closed source; that it works the same way is a guess. This method clips bounded
    activations (ReLU6, HardSigmoid) hard; `auto` does not.
    """
    counts = histogram.binned(BINS)
    counts[0] = counts[1]
    bins, divergence = divergences(counts)
    return histogram.absmax * least(bins, divergence) / len(counts)


def least(bins_kept: np.ndarray, divergence: np.ndarray) -> int:
    """The candidate with the minimum divergence; of equal ones the largest."""
    return int(bins_kept[len(bins_kept) - 1 - int(np.argmin(divergence[::-1]))])


def divergences(counts: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """(number of leading bins kept, KL(P || Q)) of every candidate.

    Vectorised over candidates: a level's mass is the difference of two prefix sums.
    """
    bins, total = len(counts), float(counts.sum())
    if total == 0.0:
        return np.asarray([bins]), np.zeros(1)
    filled = counts > 0
    logs = np.zeros(bins)
    logs[filled] = counts[filled] * np.log(counts[filled])
    mass, occupied, plogp = (np.concatenate([[0.0], np.cumsum(x)]) for x in (counts, filled, logs))
    bins_kept = np.arange(_LEVELS, bins + 1)
    # Of i kept bins, bin j is in level floor(128 j / i), so level l begins at bin ceil(l i / 128).
    starts = -(-bins_kept[:, None] * np.arange(_LEVELS + 1)[None] // _LEVELS)
    level_mass = np.diff(mass[starts], axis=1)
    level_bins = np.diff(occupied[starts], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_q = np.where(level_bins > 0, np.log(level_mass / np.maximum(level_bins, 1)), 0.0)
        last, above = counts[bins_kept - 1], total - mass[bins_kept]
        p_log_p = plogp[bins_kept] - logs[bins_kept - 1] + np.where(last + above > 0, (last + above) * np.log(last + above), 0.0)
        p_log_q = (level_mass * log_q).sum(axis=1) + above * log_q[:, -1]
        divergence = (p_log_p - p_log_q) / total - np.log(total) + np.log(mass[bins_kept])
    impossible = ((last == 0) & (above > 0)) | (mass[bins_kept] == 0)
    return bins_kept, np.where(impossible | ~np.isfinite(divergence), np.inf, divergence)


def auto(histogram: Histogram) -> float:
    """T with the minimum squared error, but never below the 99.99 percentile: rare outliers can matter to the outputs.

    If the network can run, `quantize` refines these thresholds in accuracy.repairs.output_thresholds.
    """
    return max(mse(histogram), percentile(histogram))


#: Keys are vocabulary.CALIBRATION_METHODS, in the same order.
METHODS: Mapping[str, Callable[[Histogram], float]] = {
    "auto": auto,
    "minmax": minmax,
    "entropy": entropy,
    "percentile": percentile,
    "mse": mse,
}


def method_of(text: str) -> Callable[[Histogram], float]:
    """The method with this name; `percentile:99.9` sets its percentile.

    Raises:
        UsageError: no such method, or an invalid percentile.
    """
    name, colon, number = text.partition(":")
    if name == "percentile" and colon:
        percent: Optional[float] = None
        with suppress(ValueError):
            percent = float(number)
        if percent is None or not 0 < percent <= 100:
            raise UsageError(f"{number!r} is not a percentile", where=text, allowed="above 0, at most 100")
        chosen = percent
        return lambda histogram: percentile(histogram, chosen)
    if name not in METHODS or colon:
        raise UsageError(f"unknown calibration method {text!r}", allowed=", ".join((*METHODS, "percentile:99.9")))
    return METHODS[name]


def thresholds(collection: Collection, method: str = DEFAULT) -> Dict[str, float]:
    """Tensor name -> T. Leaves out tensors that are zero in every sample, or whose scale FP32 cannot hold.

    Raises:
        UsageError: no such method.
    """
    choose = method_of(method)
    ranges: Dict[str, float] = {}
    for name, histogram in collection.histograms.items():
        if holds_scale(histogram.absmax):
            threshold = choose(histogram)
            ranges[name] = threshold if holds_scale(threshold) else histogram.absmax
    return ranges


def holds_scale(absmax: float) -> bool:
    """True if absmax / 127 is a normal FP32 number; TensorRT treats any other as a missing scale."""
    return absmax / INT8_MAX >= float(np.finfo(np.float32).tiny)
