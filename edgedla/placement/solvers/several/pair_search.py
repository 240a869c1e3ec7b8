"""The makespan of two models on one set of engines: what is known of it, and searches that know more."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.holds.hold_search import HoldSearch
from edgedla.placement.solvers.labels.rounds import LabelRounds
from edgedla.placement.solvers.several.any_order import AnyOrder
from edgedla.placement.solvers.several.dives import Dives, best_pairs, dives
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.several.pair_weights import climbed_weights, coarse_weights, of_model, weights_around
from edgedla.placement.solvers.several.row_pair import bound_of_pairs
from edgedla.placement.solvers.several.segment_rows import segment_rows
from edgedla.placement.solvers.several.turns import Turns
from edgedla.placement.solvers.stays.stay_rounds import StayRounds
from edgedla.placement.solvers.streams.prices.load_weights import Prices

#: Loadables of one model, and states before one item, to look for placements alone.
FEW_LOADABLES, FEW_STATES = 2, 400

#: States before one item of a graph of segments, to prove what is known.
ROW_STATES = 40_000

#: Placements of the first weights that are tried.
HANDED_OUT = 12

#: A placement shorter by this share is a reason to start anew: much of what is to be looked at then falls away.
SHORTER = 1e-3

#: Share of the time left that a search in turns may take.
TURNING = 0.18

#: Gap, as a share of the bound, up to which labels come before turns.
NARROW = 0.02

#: Share of the time left that a narrow look over labels may take.
DIVING = 0.4

#: Share of the time left that each search over labels may take, which ends sooner where it will not get through: one soon,
#: and one once good placements are known, below which there is less to look into.
LABELS: Tuple[float, ...] = (0.3, 0.95)

#: Share of the time left that a search by holds may take, and the widest gap for one, as a share of the bound.
HOLDING, HOLDABLE = 0.97, 0.06

#: Share of the time left that a search by stays may take, and what shows whether it is soon through.
STAYING, ASKING = 0.8, 0.1

#: The first search ends with a look of so many labels: a longer one shall know good placements.
FEW_LABELS = 300_000.0


class PairSearch:
    """The search on one set of engines.

    Attributes:
        bound: no pair of placements on these engines is shorter; one that reaches what was asked for may be taken for it.
        knows: the last look met all placements that matter, as if segments could run in any order.
    """

    def __init__(self, problem: Problem, engines: Tuple[str, ...], best: Best, gap: float, deadline: Deadline) -> None:
        self.pair = Pair(problem, engines, best, gap, deadline)
        self._glanced = INFINITY
        # A core that a model has for itself is busy for no longer than the model runs.
        self._weighed = np.array([True, *(len(self.pair.cores) == 1 for _ in self.pair.cores[:1]), True, True])
        grid = coarse_weights(self._weighed)
        least = self._dive(grid)
        self._weights, self.bound = grid[int(least.argmax())], float(least.max())
        if self.bound < self.pair.limit and not deadline.passed:
            self.bound, self._weights = climbed_weights(
                self.pair.frontiers, self.pair.factors, self._weighed, self._weights, self.bound
            )
        self._turns: Optional[Turns] = None
        self._labels: Optional[LabelRounds] = None
        self._label_looks, self.knows = 0, False
        self._is_stuck = self._has_stayed = False
        self._stays_soon: Optional[bool] = None
        self._hold_looks = 0
        if self.bound < self.pair.limit and LabelRounds.can_run(self.pair) and not self.pair.is_late:
            self._labels = LabelRounds(self.pair, self._weights, self._weighed)
            self._look_at_labels()

    def look(self, most_states: int, share: float = 1.0) -> bool:
        """Raises `bound` or finds something shorter; True where another look of this size may do more.

        Args:
            share: of the gap above `bound`, how much is looked into: far fewer states and rows lie in its lower half.
        """
        before, comes_later = self.pair.best.value, False
        if self._turns is None:
            self._dive_among_labels()
            self._look_at_holds()
            if self.bound >= self.pair.limit:
                return False
            comes_later = self._is_narrow()
            if not comes_later:
                self._take_turns()
        if self._labels is not None and not self._labels.is_in_reach(self.bound):
            self._look_at_holds()
            if self.bound >= self.pair.limit:
                return False
            value = self.pair.best.value
            self._dive_among_labels()
            if self.pair.best.value < value:
                self._take_turns()
        self._look_at_labels()
        if comes_later and self.bound < self.pair.limit:
            self._take_turns()
        self._look_at_stays()
        if self.bound >= self.pair.limit:
            return False
        asked = min(self.bound + share * (self.pair.limit - self.bound), self.pair.limit)
        rows_of_weights = weights_around(self._weights, self._weighed)
        any_order = AnyOrder(self.pair, rows_of_weights, self.bound, asked)
        more = any_order.look(most_states)
        self.bound, self.knows = any_order.bound, any_order.known
        if any_order.known:
            self._take_turns(any_order.seeds())
        climbed = any_order.pair_weights[int((any_order.priced[0] + any_order.priced[1]).argmax())]
        if not np.allclose(climbed, self._weights, atol=1e-6):
            self._weights = climbed
        if not more or self.bound >= any_order.limit or self.pair.is_late:
            self._is_stuck = self.bound < asked
            return not self._is_stuck
        if self.pair.best.value < before * (1 - SHORTER):
            # Much of what is to be looked at falls away.
            return True
        most, low = any_order.most_loadables()
        if max(most) > FEW_LOADABLES:
            # Each further one takes a multiple of the time: what a glance meets may spare it.
            self._glance(any_order)
            if self.pair.best.value < before * (1 - SHORTER):
                return True
        self._look_at_rows(any_order, most, low)
        if self.bound < asked and not self.pair.is_late:
            self._glance(any_order)
        if self.pair.best.value < before:
            self._take_turns()
        self._is_stuck = self.bound < asked
        return not self._is_stuck or self.pair.best.value < before

    def _look_at_rows(self, any_order: AnyOrder, most: Sequence[int], low: float) -> None:
        # More loadables than are looked into say no more than `low`.
        limit = low if low > self.bound else any_order.limit
        rows = []
        for m in (0, 1):
            left_out, rows_of_model = segment_rows(self.pair, any_order, m, most[m], ROW_STATES, limit, self.bound)
            low = min(low, left_out)
            rows.append(rows_of_model)
        if self.pair.is_late:
            return
        if low > self.bound:
            self.bound = max(self.bound, bound_of_pairs(self.pair, rows, low))

    def _glance(self, any_order: AnyOrder) -> None:
        """Looks for something shorter alone, among few placements; once for a limit."""
        if self._glanced > self.pair.limit:
            most = FEW_LOADABLES * self.pair.with_core
            rows = [segment_rows(self.pair, any_order, m, most, FEW_STATES, self.pair.limit)[1] for m in (0, 1)]
            bound_of_pairs(self.pair, rows, self.pair.limit)
            self._glanced = self.pair.limit

    def _look_at_labels(self) -> None:
        if self._labels is not None and self._labels.goes_on and self._label_looks < len(LABELS):
            most = INFINITY if self._label_looks else FEW_LABELS
            until = self._until(LABELS[self._label_looks])
            self._label_looks += 1
            self.bound = max(self.bound, self._labels.run(self.bound, until, most))

    def _is_narrow(self) -> bool:
        """Whether labels may cover the gap, and it is narrow: they soon show whether turns could find anything, and what."""
        return (
            self._labels is not None
            and self._labels.is_in_reach(self.bound)
            and self.pair.limit <= self.bound * (1 + NARROW)
        )

    def _dive_among_labels(self) -> None:
        if self._labels is not None:
            self.bound = max(self.bound, self._labels.dive(self.bound, self._until(DIVING)))

    def _look_at_holds(self) -> None:
        """Where labels are too many: first if that proves what is known, then for a bound, once a look got stuck."""
        if self._labels is None or self._hold_looks == 2 or self._labels.is_in_reach(self.bound):
            return
        if self._hold_looks == 1 and not self._is_stuck or not HoldSearch.can_run(self.pair):
            return
        if self.pair.limit > self.bound * (1 + HOLDABLE) or self._are_stays_soon(ASKING / 2):
            return
        self._hold_looks += 1
        at, known = self._labels.timelines.telling, self._labels.timelines.known
        holds = HoldSearch(
            self.pair, self._labels.weights[at], [known.rest[start, at] for start in self._labels.timelines.starts]
        )
        reached = holds.run(self.bound, self.pair.limit, self._until(HOLDING), proves=self._hold_looks == 1)
        self.bound = max(self.bound, reached)

    def _look_at_stays(self) -> None:
        """Once labels have shown that they will not get through: at once where that is soon done, else where a look got stuck."""
        if self._has_stayed or self.bound >= self.pair.limit or not (self._are_stays_soon(ASKING) or self._is_stuck):
            return
        stays = self._stays()
        if stays is not None:
            self._has_stayed = True
            self.bound = max(self.bound, stays.run(self.bound, self._until(STAYING)))

    def _are_stays_soon(self, share: float) -> bool:
        """Whether a search by stays is soon through; asked once, but for an answer that such a share of the time cut short."""
        if self._stays_soon is None:
            stays, until = self._stays(), self._until(share)
            soon = stays is not None and stays.is_soon_through(self.bound, until)
            if soon or stays is not None and not until.passed:
                self._stays_soon = soon
        return bool(self._stays_soon)

    def _stays(self) -> Optional[StayRounds]:
        """The search by stays, where labels have shown that they will not get through."""
        if self._labels is None or self._labels.goes_on:
            return None
        return StayRounds.of(self.pair, self._labels.timelines, self._labels.weights)

    def _take_turns(self, seeds: Sequence[Evaluation] = ()) -> None:
        pair = self.pair
        if self._turns is None:
            self._turns = Turns(
                pair.problem, pair.best, pair.names, pair.counted, pair.order, pair.factors, pair.deadline
            )
            self._turns.begin(self._until())
        if pair.best.evaluation is not None:
            self._turns.improve([pair.best.evaluation, *seeds], self._until())

    def _until(self, share: float = TURNING) -> Deadline:
        return self.pair.deadline.part(share)

    def _dive(self, rows: np.ndarray) -> np.ndarray:
        """By row of weights, a bound; the best pairs of placements that the weights lead to are offered."""
        pair = self.pair
        least = np.zeros(len(rows))
        both: List[Dives] = []
        for m in (0, 1):
            prices = Prices(pair.frontiers[m], of_model(rows, m, pair.factors), np.ones(len(rows), bool))
            least += prices.root
            both.append(dives(pair.counted[m], pair.items[m], prices))
        for bound, a, b in best_pairs(both, pair.factors, pair.names)[:HANDED_OUT]:
            if bound >= pair.limit:
                break
            pair.best.offer(pair.placed(pair.named(0, both[0].choices[a]), pair.named(1, both[1].choices[b])))
        return least
