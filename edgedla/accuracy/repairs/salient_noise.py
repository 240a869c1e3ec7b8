"""Noise at a network's outputs, weighted toward elements that differ from their usual value."""

from __future__ import annotations

import math
from typing import List, Mapping, Optional, Sequence

import numpy as np

from edgedla.accuracy.simulation import Simulation
from edgedla.quantization.dot import dot
from edgedla.quantization.samples import Feed

#: (share of the samples, factor): ranges whose noise on these is so many times that of the best so far are given up there.
_WORSE = ((0.25, 1.1), (0.5, 1.02))


class SalientNoise:
    """Noise over signal of the outputs. An element's weight is its squared distance from its mean over the samples.

    With y in FP32, y' simulated, and m the mean of an element over the samples, for each output:

        share = sum (y' - y)**2 (y - m)**2  /  sum (y - m)**4

    A detector's outputs are background nearly everywhere. Plain noise over signal then prefers ranges that clip the few
    large values of an object: of eight sets of ranges for one detector it ranked the one with the largest loss of mAP
    second. This measure ranks them in the order of their mAP. If no output differs from its mean (one sample, or all
    equal), every element has the same weight.
    """

    def __init__(self, simulation: Simulation, feeds: Sequence[Feed]) -> None:
        self.simulation, self.feeds = simulation, feeds
        self.means: List[np.ndarray] = []
        for outputs in simulation.reference(feeds):
            shares = [np.asarray(y, np.float64) / len(feeds) for y in outputs]
            self.means = [mean + share for mean, share in zip(self.means, shares)] if self.means else shares
        self.signal = [0.0] * len(self.means)
        for outputs in simulation.reference(feeds):
            for k, y in enumerate(outputs):
                self.signal[k] += float((self._weights(k, y) ** 2).sum())

    def parts(self, absmax: Optional[Mapping[str, float]] = None, known: Sequence[float] = ()) -> List[float]:
        """What each sample adds to the share, which is the mean over the outputs that vary.

        Args:
            absmax: tensor -> range in place of the plan's.
            known: the parts of other ranges: where the first samples have so much more noise than with them (`_WORSE`), the rest is
                not run, and the answer is [infinity].
        """
        varying = [k for k, s in enumerate(self.signal) if s > 0]
        if not varying:
            return [self.simulation.noise(self.feeds, absmax).share]
        found: List[float] = []
        for exact, outputs in zip(self.simulation.reference(self.feeds), self.simulation.runs(self.feeds, absmax)):
            errors = [0.0] * len(self.signal)
            for k, (y, simulated) in enumerate(zip(exact, outputs)):
                weights = self._weights(k, y)
                with np.errstate(invalid="ignore"):
                    difference = np.where(weights > 0, np.asarray(simulated, np.float64) - y, 0.0).reshape(-1)
                errors[k] = dot(difference * difference, weights.reshape(-1))
            found.append(float(np.mean([errors[k] / self.signal[k] for k in varying])))
            for share, factor in _WORSE:
                if len(found) == int(share * len(known)) and sum(found) > sum(known[: len(found)]) * factor:
                    return [math.inf]
        return found

    def _weights(self, k: int, exact: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            distance = np.asarray(exact, np.float64) - self.means[k]
        # A score masked with infinity gets weight 0.
        weights: np.ndarray = np.where(np.isfinite(distance), distance * distance, 0.0)
        return weights
