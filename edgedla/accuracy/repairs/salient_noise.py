"""Noise at a network's outputs where it matters: at elements that differ from what they are on most samples."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence

import numpy as np

from edgedla.accuracy.simulation import Simulation
from edgedla.quantization.dot import dot
from edgedla.quantization.samples import Feed


class SalientNoise:
    """Noise over signal of the outputs, each element weighted by the square of its distance from its mean over the samples.

    With y in FP32, y' simulated, and m the mean of an element over the samples, for each output:

        share = sum (y' - y)**2 (y - m)**2  /  sum (y - m)**4

    A detector's outputs are background nearly everywhere. Plain noise over signal then prefers ranges that clip the few
    large values that an object makes: of eight sets of ranges of one detector it put the one that lost most mAP second.
    This puts them in the order of their mAP. Where no output has a mean to differ from (one sample, or all equal), every
    element counts alike.
    """

    def __init__(self, simulation: Simulation, feeds: Sequence[Feed]) -> None:
        self.simulation, self.feeds = simulation, feeds
        self.exact = simulation.reference(feeds)
        self.means: List[np.ndarray] = []
        for outputs in self.exact:
            shares = [np.asarray(y, np.float64) / len(feeds) for y in outputs]
            self.means = [mean + share for mean, share in zip(self.means, shares)] if self.means else shares
        self.signal = [0.0] * len(self.means)
        for outputs in self.exact:
            for k, y in enumerate(outputs):
                self.signal[k] += float((self._weights(k, y) ** 2).sum())

    def share(self, absmax: Optional[Mapping[str, float]] = None) -> float:
        """Mean over the outputs that vary. `absmax`: ranges in place of the plan's, by tensor."""
        if not any(s > 0 for s in self.signal):
            return self.simulation.noise(self.feeds, absmax).share
        errors = [0.0] * len(self.signal)
        for exact, feed in zip(self.exact, self.feeds):
            for k, (y, simulated) in enumerate(zip(exact, self.simulation.run(feed, absmax))):
                weights = self._weights(k, y)
                with np.errstate(invalid="ignore"):
                    difference = np.where(weights > 0, np.asarray(simulated, np.float64) - y, 0.0).reshape(-1)
                errors[k] += dot(difference * difference, weights.reshape(-1))
        return float(np.mean([e / s for e, s in zip(errors, self.signal) if s > 0]))

    def _weights(self, k: int, exact: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            distance = np.asarray(exact, np.float64) - self.means[k]
        # A score that is masked with infinity has no distance.
        weights: np.ndarray = np.where(np.isfinite(distance), distance * distance, 0.0)
        return weights
