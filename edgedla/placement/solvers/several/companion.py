"""How one model's placements limit the other: how short a pair can be, given the GPU time of one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Companion(NamedTuple):
    """The GPU time and the own time of a model's placements, without dominated ones.

    A bound by weights is that of a mixture of placements, but a model with few placements is never such a mixture.

    Attributes:
        gpu_us: ascending, with slowdown.
        own_us: of a single frame without waits; descending.
    """

    gpu_us: np.ndarray
    own_us: np.ndarray

    @classmethod
    def of(cls, loads: np.ndarray) -> Companion:
        """From rows of loads by device, the GPU first."""
        gpu_us, own_us = loads[:, 0], loads.sum(axis=1)
        order = np.lexsort((own_us, gpu_us))
        gpu_us, own_us = gpu_us[order], own_us[order]
        keep = np.ones(len(order), bool)
        keep[1:] = own_us[1:] < np.minimum.accumulate(own_us)[:-1]
        return cls(gpu_us[keep], own_us[keep])

    def least(self, gpu_us: np.ndarray) -> np.ndarray:
        """The minimum, over this model's placements, of max(GPU time of both models, own time of this model)."""
        count = len(self.gpu_us)
        if not count:
            return np.full(len(gpu_us), np.inf)
        # From here on the GPU time is the longer one.
        at = np.searchsorted(self.gpu_us - self.own_us, -gpu_us)
        on_gpu = np.where(at < count, gpu_us + self.gpu_us[np.minimum(at, count - 1)], np.inf)
        own = np.where(at > 0, self.own_us[np.maximum(at - 1, 0)], np.inf)
        least: np.ndarray = np.minimum(on_gpu, own)
        return least
