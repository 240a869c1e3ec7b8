"""Lower bounds of the time that two streams with one frame in flight each wait for each other, from sums per frame alone."""

from __future__ import annotations

from typing import NamedTuple, Tuple

import numpy as np

#: How far the paces of `prediction.streams` may be from convergence, as a share of the period.
SETTLED = 1e-5

#: Iterations of the waits, which grow each time; every iterate is a lower bound.
ROUNDS = 8


class Frames(NamedTuple):
    """Frames of one model: minima over the placements that each row stands for.

    Attributes:
        gpu_us, core_us: time on the GPU, and on the cores.
        own_us: time of the frame without any wait.
        visits: number of visits of the GPU.
        more: there may be more visits than `visits`.
        whole: everything runs on the GPU.
    """

    gpu_us: np.ndarray
    core_us: np.ndarray
    own_us: np.ndarray
    visits: np.ndarray
    more: np.ndarray
    whole: np.ndarray

    def take(self, which: np.ndarray) -> Frames:
        """The rows at these indices."""
        return Frames(*(x[which] for x in self))

    def column(self) -> Frames:
        """The rows as a column, to pair each with every row of another model."""
        return Frames(*(x[:, None] for x in self))


class Sharing(NamedTuple):
    """How the streams share the GPU, as in `prediction.streams.side_by_side`.

    Attributes:
        rates: frames of each model per period.
        switch_us: time of a switch between processes; above 0.
        one_process: both streams run in one process.
        cores: number of cores.
    """

    rates: Tuple[float, float]
    switch_us: float
    one_process: bool
    cores: int

    def can_keep(self, a: Frames, b: Frames, period_us: float) -> np.ndarray:
        """Per pair of rows, whether no bound excludes this period."""
        wait_a, wait_b = self.waits(a, b, period_us)
        longest = period_us * (1 + SETTLED)
        rate_a, rate_b = self.rates
        cores_us = rate_a * a.core_us + rate_b * b.core_us
        keeps: np.ndarray = (
            (rate_a * (a.own_us + wait_a) <= longest)
            & (rate_b * (b.own_us + wait_b) <= longest)
            & (rate_a * a.gpu_us + rate_b * b.gpu_us <= longest)
            & (cores_us <= longest * max(self.cores, 1))
        )
        return keeps

    def waits(self, a: Frames, b: Frames, period_us: float) -> Tuple[np.ndarray, np.ndarray]:
        """Per pair of rows, a lower bound of the wait of each frame if both frames keep the period.

        The waits converge to W = f(W). f grows with the waits and with the frames' parts, and falls with the frames' lengths,
        none of which exceeds period / rate. So iterating from zero waits, with these maximum lengths and with the minimum
        parts, never exceeds W.
        """
        wait_a = wait_b = np.zeros(np.broadcast(a.gpu_us, b.gpu_us).shape)
        for _ in range(ROUNDS):
            wait_a, wait_b = (
                self._wait(a, b, wait_a, wait_b, self.rates, period_us),
                self._wait(b, a, wait_b, wait_a, self.rates[::-1], period_us),
            )
        return wait_a, wait_b

    def _wait(
        self, own: Frames, other: Frames, wait: np.ndarray, others: np.ndarray, rates: Tuple[float, ...], period_us: float
    ) -> np.ndarray:
        """The wait of a frame, given lower bounds of its own wait and of the other frame's.

        In one process: its GPU time, times the share of time that the other frame is on the GPU or waits for it.

        In separate processes, each of n visits a waits for parts b + switch of the other frame, which with switches sum to B:
            sum over visits and parts of (b + switch) * min(1, max(a + wait / n, b + switch + other's wait / other's n) / frame)

        - With the first term of the max: the visits add up to GPU time + wait, and no frame is longer than its period.
        - With the second: by the inequality of means the minimum has equal parts: n / other's n * B * (B + wait).
          A model wholly on the GPU has one visit as long as its frame: then the share is 1.
        """
        tolerance = SETTLED * period_us / rates[0]
        other_us = period_us / rates[1]
        if self.one_process:
            share = np.where(other.whole, 1.0, (other.gpu_us + others) / other_us)
            return np.maximum(own.gpu_us * np.minimum(share, 1.0) - tolerance, 0.0)
        switched = other.gpu_us + self.switch_us * other.visits
        by_own = switched * (own.gpu_us + wait) * (min(rates) / period_us)
        by_other = own.visits * np.where(other.whole, switched, self._alike(other, others) / other_us)
        return np.maximum(np.maximum(by_own, by_other) - tolerance, 0.0)

    def _alike(self, frames: Frames, wait: np.ndarray) -> np.ndarray:
        """Sum over parts of (part + switch) * (part + switch + its wait) with equal parts; minimal over their number if open.

        If the cores' time is less than a switch, the second switch is left out: no visit is longer than the frame.
        """
        gpu, switch = frames.gpu_us, self.switch_us
        twice = frames.core_us >= switch
        fewest = np.sqrt(gpu * (gpu + wait)) / switch
        visits = np.where(frames.more, np.maximum(frames.visits, fewest), frames.visits)
        parts, squares = gpu / visits, gpu * (gpu + wait) / visits
        once = np.where(frames.more, switch * (gpu + wait), (parts + switch) * (gpu + wait))
        both: np.ndarray = np.where(twice, squares + switch * (2 * gpu + wait) + switch**2 * visits, once)
        return both
