"""Histogram of one tensor's magnitudes. Its range grows with the values, so one pass over the samples is enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Tuple

import numpy as np

from edgedla.quantization.dot import dot

#: Bins during collection. The range doubles when a value exceeds it, so at the end at least half of the bins lie below
#: the largest magnitude.
FINE_BINS = 16384
#: Bins that thresholds are chosen from, as in TensorRT's and pytorch-quantization's calibrators.
BINS = 2048


@dataclass
class Histogram:
    """Counts of |x| in FINE_BINS equal bins over [0, top).

    Attributes:
        absmax: largest magnitude of all values, including those left out of the counts.
        top: upper edge of the last bin; 0 while every value was zero.
        zeros: values that are exactly zero while `top` is 0.
    """

    counts: np.ndarray = field(default_factory=lambda: np.zeros(FINE_BINS, np.int64))
    absmax: float = 0.0
    top: float = 0.0
    zeros: int = 0

    def add(self, magnitudes: np.ndarray, absmax: float) -> None:
        """Counts values of one sample.

        Args:
            magnitudes: |x|, float32, all or an even selection of the tensor's elements.
            absmax: largest |x| of all its elements; finite.
        """
        self.absmax = max(self.absmax, absmax)
        if absmax > self.top:
            self._widen(absmax)
        if self.top == 0.0:
            self.zeros += magnitudes.size
            return
        # In double precision: FINE_BINS / top overflows FP32 where the tensor holds denormal numbers only.
        place = np.multiply(magnitudes, FINE_BINS / self.top, dtype=np.float64 if self.top < 1e-30 else np.float32)
        bins = np.minimum(place.astype(np.int32), FINE_BINS - 1)
        self.counts += np.bincount(bins, minlength=FINE_BINS)

    def _widen(self, absmax: float) -> None:
        if self.top == 0.0:
            self.top = absmax
            self.counts[0] += self.zeros
            return
        while self.top < absmax:
            half = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([half, np.zeros(FINE_BINS // 2, np.int64)])
            self.top *= 2.0

    def binned(self, bins: int = BINS) -> np.ndarray:
        """Counts in `bins` equal bins over [0, absmax]: (bins,) float64.

        A fine bin that lies across an edge is shared in proportion. Without sharing, bins would alternate between 4 and
        5 fine bins, and entropy would take that pattern for information.
        """
        if self.absmax <= 0.0:
            return np.zeros(bins)
        edges = np.arange(FINE_BINS + 1) * (self.top / FINE_BINS)
        below = np.concatenate([[0], np.cumsum(self.counts)])
        # No value exceeds the maximum, so the fine bin that holds it ends there.
        edges = np.minimum(edges, self.absmax)
        first = int(np.searchsorted(edges, self.absmax))
        at = np.interp(np.linspace(0.0, self.absmax, bins + 1), edges[: first + 1], below[: first + 1])
        at[-1] = below[-1]
        result: np.ndarray = np.diff(at)
        return result

    def filled(self) -> Tuple[np.ndarray, np.ndarray]:
        """(magnitude, count) of every bin that holds values; the first bin counts as zero."""
        filled = np.flatnonzero(self.counts)
        middle = np.where(filled == 0, 0.0, np.minimum((filled + 0.5) * (self.top / FINE_BINS), self.absmax))
        return middle, self.counts[filled].astype(np.float64)

    def power(self) -> float:
        """Mean of x**2."""
        middle, counts = self.filled()
        total = counts.sum() + (self.zeros if self.top == 0.0 else 0)
        return dot(middle * middle, counts) / float(total) if total else 0.0
