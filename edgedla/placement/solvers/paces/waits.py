"""What two streams with one frame in flight each lose to the other at least, from sums of their frames alone."""

from __future__ import annotations

from typing import NamedTuple, Tuple

import numpy as np

#: How far the paces of `prediction.streams` may be from where they settle, as a share of the period.
SETTLED = 1e-5

#: Rounds of the waits, which grow from one to the next; each is a bound.
ROUNDS = 8


class Frames(NamedTuple):
    """Frames of one model: least values of the placements that each row stands for.

    Attributes:
        gpu_us, core_us: time on the GPU, and on cores.
        own_us: of the frame alone.
        visits: of the GPU.
        more: there may be more visits than that.
        whole: all is on the GPU.
    """

    gpu_us: np.ndarray
    core_us: np.ndarray
    own_us: np.ndarray
    visits: np.ndarray
    more: np.ndarray
    whole: np.ndarray

    def take(self, which: np.ndarray) -> Frames:
        """Some of the rows."""
        return Frames(*(x[which] for x in self))

    def column(self) -> Frames:
        """The rows as a column, to be met by each of another's."""
        return Frames(*(x[:, None] for x in self))


class Sharing(NamedTuple):
    """How the streams share the GPU: as `prediction.streams.side_by_side` has it.

    Attributes:
        rates: frames of each model per period.
        switch_us: above 0.
        cores: how many there are.
    """

    rates: Tuple[float, float]
    switch_us: float
    one_process: bool
    cores: int

    def can_keep(self, a: Frames, b: Frames, period_us: float) -> np.ndarray:
        """By pair of rows: no bound says that a period is longer."""
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
        """By pair of rows, what a frame of each waits at least where both frames keep the period.

        The waits W settle where W = f(W) with f that only grows with them and with the frames' parts, and that falls with
        the frames' lengths, none of which exceeds period / rate. So f with these in place of the lengths, and with the
        least of the parts, begun with no waits, never exceeds them.
        """
        wait_a = wait_b = np.zeros(np.broadcast(a.gpu_us, b.gpu_us).shape)
        for _ in range(ROUNDS):
            wait_a, wait_b = (
                self._wait(a, b, wait_a, wait_b, self.rates, period_us),
                self._wait(b, a, wait_b, wait_a, self.rates[::-1], period_us),
            )
        return wait_a, wait_b

    def _wait(
        self,
        own: Frames,
        other: Frames,
        wait: np.ndarray,
        others: np.ndarray,
        rates: Tuple[float, ...],
        period_us: float,
    ) -> np.ndarray:
        """What a frame waits, given what it and the other's frame wait at least.

        In one process: its GPU time, times the share of the time that the other is on the GPU or waits for it.

        In processes of their own each of n visits a waits for parts b + switch of the other, with switch its sum B:

            sum over visits and parts of (b + switch) * min(1, max(a + wait / n, b + switch + other's wait / its n) / frame)

        - The first of the two: the visits add up to GPU time + wait, and none is longer than the own period.
        - The second, by the inequality of the means, is least where all parts are alike: n / other's n * B * (B + wait).
          A visit of a model that is on the GPU alone is as long as its frame: then the share is 1.
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
        """Sum over parts of (part + switch) * (part + switch + its wait) if all are alike; over any number where it is open.

        Where the cores have less time than a switch takes, without the second switch: no visit is longer than the frame.
        """
        gpu, switch = frames.gpu_us, self.switch_us
        twice = frames.core_us >= switch
        fewest = np.sqrt(gpu * (gpu + wait)) / switch
        visits = np.where(frames.more, np.maximum(frames.visits, fewest), frames.visits)
        parts, squares = gpu / visits, gpu * (gpu + wait) / visits
        once = np.where(frames.more, switch * (gpu + wait), (parts + switch) * (gpu + wait))
        both: np.ndarray = np.where(twice, squares + switch * (2 * gpu + wait) + switch**2 * visits, once)
        return both
