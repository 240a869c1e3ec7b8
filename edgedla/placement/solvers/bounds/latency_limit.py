"""Latency bounds limit the sum of all devices' loads: prunes partial placements that exceed it."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.states.frontier import Frontier


def most_in_all(problem: Problem, goal: Goal) -> Optional[float]:
    """The largest sum of all loads, in us per period, that keeps every latency bound; None if a model has no bound.

    For several models this is necessary, not sufficient: the sum may keep it while one model exceeds its own bound.
    """
    bounds = [goal.bound_of(m) for m in range(len(problem.models))]
    known = [rate * us for rate, us in zip(problem.rates, bounds) if us is not None]
    sums = [sum(known)] if len(known) == len(bounds) else []
    if goal.total_latency_us is not None:
        sums.append(max(problem.rates) * goal.total_latency_us)
    return min(sums, default=None)


class LatencyLimit:
    """Requires that the loads of a complete placement add up to at most `most_us`."""

    def __init__(self, frontier: Frontier, most_us: float) -> None:
        self.most_us = most_us * (1 + 1e-9)
        self._prices = Prices(frontier, np.ones((1, len(frontier.devices))))

    def keeps(self, i: int, states: Any, behind_us: np.ndarray, state: Optional[np.ndarray] = None) -> np.ndarray:
        """Which partial placements of the items before i may stay within `most_us`, from the sum of each one's loads.

        Args:
            state: the index of each one's state; by default, one sum per state is given.
        """
        ahead = self._prices.rest(i, states)[:, 0]
        kept: np.ndarray = behind_us + (ahead if state is None else ahead[state]) <= self.most_us
        return kept
