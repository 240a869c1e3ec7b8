"""Latency bounds limit the sum of all devices' loads: prunes partial placements that exceed it, and bounds the period."""

from __future__ import annotations

import itertools
from typing import Any, List, Optional

import numpy as np

from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.fractional import simplex
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import STEPS, TIMES
from edgedla.placement.solvers.busiest.rows import Rows
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


#: Steps of the grid of weights, and the prices tried with each: 196 rows with three engines.
GRID, PRICED = 6, (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)


class LatencyLimit:
    """Requires that the loads of a complete placement add up to at most `most_us`."""

    def __init__(self, frontier: Frontier, most_us: float) -> None:
        self.most_us, self._frontier = most_us * (1 + 1e-9), frontier
        self._prices = Prices(frontier, np.ones((1, len(frontier.devices))), np.ones(1, bool))

    def bound(self, factors: np.ndarray) -> float:
        """A lower bound of the period, from weights of the loads and a price per microsecond above `most_us`.

        period >= sum over d of weight[d] * factor[d] * load[d] + price * (sum over d of load[d] - most_us)
        """
        rows = np.array([[*w, price] for w in simplex(GRID, len(factors)) for price in PRICED])
        value = self._values(factors, rows)
        best, reached = rows[int(value.argmax())], float(value.max())
        for step in STEPS:
            # If no placement keeps `most_us`, any higher price raises the bound without end: hence the maximum of steps.
            for _ in range(TIMES):
                rows = _moved(best, step)
                value = self._values(factors, rows)
                if value.max() <= reached * (1 + 1e-5):
                    break
                best, reached = rows[int(value.argmax())], float(value.max())
        return reached

    def _values(self, factors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The bound that each row (weights, then the price) gives."""
        prices = Prices(self._frontier, rows[:, :-1] * factors + rows[:, -1:], np.ones(len(rows), bool))
        return prices.root - rows[:, -1] * self.most_us

    def keeps(self, i: int, states: Any, rows: Rows) -> np.ndarray:
        """Which partial placements of the items before i may stay within `most_us`; rows.state indexes `states`."""
        return self.may_pass(i, states, rows.loads[:, 0] + rows.pool, rows.state)

    def may_pass(self, i: int, states: Any, behind_us: np.ndarray, state: Optional[np.ndarray] = None) -> np.ndarray:
        """As `keeps`, from each partial placement's sum of loads; without `state`, one sum per state."""
        ahead = self._prices.rest(i, states)[:, 0]
        kept: np.ndarray = behind_us + (ahead if state is None else ahead[state]) <= self.most_us
        return kept


def _moved(best: np.ndarray, step: float) -> np.ndarray:
    """Weights with a share moved from one device to another, for each pair; and the price scaled down and up."""
    rows: List[np.ndarray] = []
    for a, b in itertools.permutations(range(len(best) - 1), 2):
        given = min(best[a], step)
        row = best.copy()
        row[a] -= given
        row[b] += given
        rows.append(row)
    for factor in (1 - step, 1 + step):
        rows.append(np.r_[best[:-1], best[-1] * factor])
    return np.array(rows)
