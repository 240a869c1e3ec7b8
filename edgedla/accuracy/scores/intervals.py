"""95 % confidence intervals: of shares, means, paired differences, and of figures that only resampling reaches."""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence, Tuple

import numpy as np

_Z95 = 1.959963984540054
#: Student's t, 97.5 %, for 1 to 4 degrees of freedom; `_t95` is within 0.1 % from 5 on.
_T95 = (12.7062, 4.3027, 3.1824, 2.7764)


def wilson(hits: int, count: int) -> Tuple[float, float]:
    """Wilson's 95 % score interval of a share: it stays within 0 and 1, and keeps a width even for shares 0 and 1."""
    if not count:
        return 0.0, 1.0
    p, z2 = hits / count, _Z95 * _Z95
    middle = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z95 * math.sqrt(p * (1 - p) / count + z2 / (4 * count * count)) / (1 + z2 / count)
    # Rounding may move a limit past a share of 0 or 1.
    return min(max(middle - half, 0.0), p), max(min(middle + half, 1.0), p)


def paired(more: float, fewer: float, count: float) -> Tuple[float, float]:
    """95 % interval of the difference of two shares on the same samples.

    Agresti and Min 2005: adds half a sample to each of the four cells. Unlike a bootstrap, it keeps a width even if
    both networks are right on the same samples.

    Args:
        more, fewer: number of samples on which only the first, or only the second network is right.
    """
    if not count:
        return -1.0, 1.0
    larger, difference = count + 2, (more - fewer) / count
    middle = (more - fewer) / larger
    half = _Z95 * math.sqrt(more + fewer + 1 - (more - fewer) ** 2 / larger) / larger
    return max(min(middle - half, difference), -1.0), min(max(middle + half, difference), 1.0)


def mean_interval(values: Sequence[Any]) -> Tuple[float, float]:
    """Student's 95 % interval of a mean; of one value, that value alone. NaN if a value is not finite."""
    numbers = np.asarray(values, np.float64)
    count = len(numbers)
    if not np.isfinite(numbers).all():
        return math.nan, math.nan
    middle = float(numbers.mean())
    half = _t95(count - 1) * float(numbers.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    return middle - half, middle + half


def _t95(freedom: int) -> float:
    """Student's t, 97.5 %: Fisher's expansion in 1 / freedom (Abramowitz and Stegun 26.7.5)."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    z, n = _Z95, freedom
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3


def bootstrap(figure: Callable[[np.ndarray], float], count: int, resamples: int) -> Tuple[float, float]:
    """95 % percentiles of `figure` over seeded resamples of `count` samples."""
    rng = np.random.default_rng(0)
    figures = [figure(rng.integers(0, count, count)) for _ in range(resamples)]
    if np.isnan(figures).all():
        # NumPy would warn about a mean of no values.
        return math.nan, math.nan
    low, high = np.nanpercentile(figures, [2.5, 97.5])
    return float(low), float(high)
