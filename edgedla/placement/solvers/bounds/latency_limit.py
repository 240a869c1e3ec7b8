"""Latency bounds limit the sum of all devices' loads: prunes partial placements that exceed it, and bounds the period."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.fractional import GRID, simplex
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import climbed, moved
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


#: Prices per microsecond above the limit that are tried with each row of weights: 1,071 rows with three engines, in 0.1 s.
PRICED = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)


class LatencyLimit:
    """Requires that the loads of a complete placement add up to at most `most_us`."""

    def __init__(self, frontier: Frontier, most_us: float) -> None:
        self.most_us, self._frontier = most_us * (1 + 1e-9), frontier
        self._prices = Prices(frontier, np.ones((1, len(frontier.devices))))

    def bound(self, factors: np.ndarray) -> float:
        """A lower bound of the period, from weights of the loads and a price per microsecond above `most_us`.

        period >= sum over d of weight[d] * factor[d] * load[d] + price * (sum over d of load[d] - most_us)
        """
        rows = np.array([[*w, price] for w in simplex(GRID[len(factors)], len(factors)) for price in PRICED])
        value = self._values(factors, rows)
        at = int(value.argmax())
        # If no placement keeps `most_us`, any higher price raises the bound without end: hence the maximum of steps.
        return climbed(lambda rows: self._values(factors, rows), _moved, rows[at], float(value[at]))[0]

    def _values(self, factors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The bound that each row (weights, then the price) gives."""
        prices = Prices(self._frontier, rows[:, :-1] * factors + rows[:, -1:])
        return prices.root - rows[:, -1] * self.most_us

    def keeps(self, i: int, states: Any, behind_us: np.ndarray, state: Optional[np.ndarray] = None) -> np.ndarray:
        """Which partial placements of the items before i may stay within `most_us`, from the sum of each one's loads.

        Args:
            state: the index of each one's state; by default, one sum per state is given.
        """
        ahead = self._prices.rest(i, states)[:, 0]
        kept: np.ndarray = behind_us + (ahead if state is None else ahead[state]) <= self.most_us
        return kept


def _moved(best: np.ndarray, step: float) -> np.ndarray:
    """Weights with a share moved from one device to another, for each pair; and the price scaled down and up."""
    weights = moved(best[:-1], step, np.ones(len(best) - 1, bool))
    prices = best[-1] * np.array([1.0, 1 - step, 1 + step])
    return np.concatenate([np.c_[weights, np.full(len(weights), best[-1])], np.c_[np.tile(best[:-1], (3, 1)), prices]])
