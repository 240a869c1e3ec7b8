"""The makespan of two models on one set of engines: bounds by weights, placements in rounds, then a proof by labels."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import NEVER, Deadline, Stopwatch
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.goal import GAPS, INFINITY
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import HANDED_OUT, Best
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import climbed_weights, coarse_weights, of_model
from edgedla.placement.solvers.busiest.pooled_cores import LEAST_STEP
from edgedla.placement.solvers.fit_around import around, taken
from edgedla.placement.solvers.rounds import Rounds, Way
from edgedla.placement.solvers.two_models.any_order import AnyOrder
from edgedla.placement.solvers.two_models.labels.label_rounds import LabelRounds
from edgedla.placement.solvers.two_models.pair import Pair, best_pairs


class PairSearch:
    """The search on one set of engines.

    Attributes:
        bound: no pair of placements on these engines is shorter; one that reaches the pair's limit counts as proof.
    """

    def __init__(self, problem: Problem, engines: Tuple[str, ...], best: Best, gap: float, deadline: Deadline) -> None:
        self.pair = Pair(problem, engines, best, gap, deadline)
        # A core that a model has for itself is busy for no longer than the model runs.
        self._weighed = np.array([True, *(len(self.pair.cores) == 1 for _ in self.pair.cores[:1]), True, True])
        grid = coarse_weights(self._weighed)
        self._rounds: Optional[Rounds] = None
        least = self._dive(grid)
        self._weights, self.bound = grid[int(least.argmax())], float(least.max())

    @property
    def _is_open(self) -> bool:
        return self.bound < self.pair.limit and not self.pair.deadline.passed

    @property
    def _is_far(self) -> bool:
        """False near the bound, where the search ends by default: labels find what is still shorter, and prove it."""
        return self.pair.best.value > self.bound * (1 + GAPS["makespan"])

    def run(self) -> None:
        """Raises `bound`, and offers shorter pairs, until both meet or the time is over."""
        pair = self.pair
        if not self._is_open:
            return
        watch = Stopwatch()
        if self._is_far:
            self._begin()
        begin_s = watch.seconds
        # A narrow look over labels takes 3 to 7 times as long as the begin (16 pairs). In less time it would find nothing.
        if self._is_far and pair.deadline.to_prepare.left_s < begin_s:
            self.improve(pair.deadline, patience_s=begin_s)
        if self._is_open:
            self.bound, self._weights = climbed_weights(pair.frontiers, pair.factors, self._weighed, self._weights, self.bound)
        if not LabelRounds.can_run(pair):
            self.improve(pair.deadline)
            self._look_in_any_order(pair.deadline)
            return
        labels = LabelRounds(pair, self._weights, self._weighed)
        if self._is_far:
            # A narrow look takes a fraction of the time of the rounds, and mostly finds what they would.
            self.bound = labels.dive(self.bound, pair.deadline)
        if self._is_far:
            self.improve(pair.deadline.to_prepare, patience_s=begin_s)
        self._look_in_any_order(pair.deadline.to_prepare)
        if self._is_open:
            self.bound = labels.run(self.bound, pair.deadline)
            if self._is_open:
                # Too many branches for a proof: a shorter pair may still be found.
                self.improve(pair.deadline)

    def _begin(self) -> Rounds:
        pair = self.pair
        ways = [[Way.of(*of_model, pair.factors)] for of_model in zip(pair.names, pair.states)]
        self._rounds = Rounds(pair.problem, pair.best, pair.order, ways, pair.deadline)
        self._rounds.begin(pair.deadline)
        return self._rounds

    def _look_in_any_order(self, until: Deadline) -> None:
        """Looks below ever lower limits, until few enough states are left. One that raises the bound offers pairs: else order decides."""
        reach = self.pair.limit
        while self._is_open and not until.passed and reach > self.bound * (1 + LEAST_STEP):
            looked = AnyOrder(self.pair, self._weights, self._weighed, reach, until)
            known, self.bound = self.bound, max(self.bound, looked.bound)
            if looked.is_through:
                if self.bound > known:
                    self.improve(self.pair.deadline.to_prepare, looked.pairs())
                return
            if reach == INFINITY:
                # No pair is known, and half of the way would be as far.
                return
            reach = (self.bound + reach) / 2

    def improve(self, until: Deadline, seeds: Sequence[Evaluation] = (), patience_s: float = INFINITY) -> None:
        """Offers what the rounds find; most end long before their time."""
        known = [] if self.pair.best.evaluation is None else [self.pair.best.evaluation]
        (self._rounds or self._begin()).run([*known, *seeds], until, self.bound, patience_s)

    def _dive(self, rows: np.ndarray) -> np.ndarray:
        """By row of weights, a bound; the best pairs of the placements that the weights lead to are offered."""
        pair, every = self.pair, np.arange(len(rows))
        least, free = np.zeros(len(rows)), taken([[]] * len(rows))
        choices, loads = [], []
        for m in (0, 1):
            prices = Prices(pair.frontiers[m], of_model(rows, m, pair.factors))
            least += prices.root
            busy = [free] * len(pair.factors)
            _, met, load = around(pair.states[m], pair.items[m], prices, pair.factors, busy, every, NEVER, kept=1)
            different, first = np.unique(met, axis=0, return_index=True)
            choices.append(different)
            loads.append(load[first])
        for bound, a, b in best_pairs(loads, pair.factors, pair.names)[:HANDED_OUT]:
            if bound >= pair.limit:
                break
            pair.best.offer(pair.placed(pair.named(0, choices[0][a]), pair.named(1, choices[1][b])))
        return least
