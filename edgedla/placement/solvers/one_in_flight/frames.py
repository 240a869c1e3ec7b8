"""The least period of two streams with one frame in flight: steps of GPU time, each with the least frame that prices allow."""

from __future__ import annotations

import numpy as np

from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.one_in_flight.waits import SETTLED, Frames, Sharing
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import problem_of_model
from edgedla.vocabulary import GPU

#: Weights of the GPU time, besides the frame's own time, that tell placements apart.
WEIGHTS = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0])

#: Steps of GPU time: 0.2 s. On four pairs 100 give bounds that are 0.05 to 0.6 % lower, and 400 take 0.5 to 1.2 s for 0.2 to 0.4 % more.
STEPS = 200


class ModelFrames:
    """The frames that one of two models may have, on the GPU and one core.

    With two equal cores, a placement takes at least as long as with all its loadables on one core: that adds no tensors
    that change devices, and no stretches on the core along any path.
    """

    def __init__(self, problem: Problem, model: int) -> None:
        alone = problem_of_model(problem, model)
        frontier = Frontier(alone, (GPU, *problem.cores[:1]))
        self._can_be_on_core = any(1 in allowed for allowed in frontier.allowed)
        self._on_gpu_us = np.inf
        if all(0 in allowed for allowed in frontier.allowed):
            self._on_gpu_us = sum(i.time_us(GPU) for i in alone.items) + alone.engine.latency_us
        weights = np.array([*((1 + w, 1.0) for w in WEIGHTS), (1.0, 0.0)])
        # Both ways of counting loadables are valid here: the placements in question have at least one.
        self._least = Prices.both_ways(frontier, weights).root.reshape(2, -1).max(axis=0)

    def within(self, most_us: float) -> Frames:
        """All on the GPU; and by steps of GPU time, with some of it on a core. None is longer than this."""
        starts = np.linspace(0.0, most_us, STEPS, endpoint=False)
        ends = starts + most_us / STEPS
        own = np.maximum((self._least[:-1] - WEIGHTS * ends[:, None]).max(axis=1), starts)
        possible = np.r_[self._on_gpu_us <= most_us, (ends >= self._least[-1]) & (own <= most_us) & self._can_be_on_core]
        first = np.zeros(STEPS + 1)
        first[0] = 1.0
        whole = first > 0
        # A model that is not wholly on the GPU visits it before its first loadable and after its last one.
        frames = Frames(
            np.r_[self._on_gpu_us, starts],
            np.r_[0.0, np.maximum(own - ends, 0.0)],
            np.r_[self._on_gpu_us, own],
            2.0 - first,
            ~whole,
            whole,
        )
        return frames.take(np.flatnonzero(possible))


def least_period(problem: Problem, sharing: Sharing, low: float, high: float) -> float:
    """The longest period from `low` to `high` that no pair of frames keeps: a frame that keeps one keeps any longer one."""
    models = [ModelFrames(problem, m) for m in (0, 1)]

    def is_kept(period_us: float) -> bool:
        first, second = (model.within(period_us / rate * (1 + SETTLED)) for model, rate in zip(models, sharing.rates))
        return bool(sharing.can_keep(first.column(), second, period_us).any())

    if not is_kept(high):
        return high
    while high - low > SETTLED * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_kept(middle) else (middle, high)
    return low
