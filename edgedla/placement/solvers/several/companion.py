"""What the placements of one model mean for the other: how short a pair can be, given the GPU time of one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Companion(NamedTuple):
    """The GPU time and the own time of a model's placements, without those that another undercuts.

    By weights the bound of a pair is that of a mixture of placements; a model that has few of them is never one.

    Attributes:
        gpu_us: ascending, slowdown counted.
        own_us: of one frame alone; descending.
    """

    gpu_us: np.ndarray
    own_us: np.ndarray

    @classmethod
    def of(cls, loads: np.ndarray) -> Companion:
        """Of rows of loads by device, the GPU first."""
        gpu_us, own_us = loads[:, 0], loads.sum(axis=1)
        order = np.lexsort((own_us, gpu_us))
        gpu_us, own_us = gpu_us[order], own_us[order]
        keep = np.ones(len(order), bool)
        keep[1:] = own_us[1:] < np.minimum.accumulate(own_us)[:-1]
        return cls(gpu_us[keep], own_us[keep])

    def least(self, gpu_us: np.ndarray) -> np.ndarray:
        """The least of max(GPU time of both, own time of this model) over its placements."""
        count = len(self.gpu_us)
        if not count:
            return np.full(len(gpu_us), np.inf)
        # From here on the GPU's time is the longer one.
        at = np.searchsorted(self.gpu_us - self.own_us, -gpu_us)
        on_gpu = np.where(at < count, gpu_us + self.gpu_us[np.minimum(at, count - 1)], np.inf)
        own = np.where(at > 0, self.own_us[np.maximum(at - 1, 0)], np.inf)
        least: np.ndarray = np.minimum(on_gpu, own)
        return least
