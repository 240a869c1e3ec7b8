"""The minimum that the rest of a model takes, for any set of items that has run: `Prices` beyond prefixes of one order."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.labels.grown import Grown
from edgedla.placement.solvers.labels.moments import ON_CORE, PAID, Moment, Moments, positions
from edgedla.placement.solvers.streams.load_weights import Prices

#: A tensor's set of devices, as bits: both.
BOTH = 3

#: Kinds of terms besides the tensors still to be read.
OWED, ITEM, ENGINE, JOINS = -1, -2, -3, -4

Term = Tuple[int, int, int, int, int]


class Rests:
    """Per weight, a lower bound of the cost after a moment: a sum of terms, each computed once.

    Args:
        prices: of the model's frontier, with the loadables along the path counted.
        weights: (weights, 2): per microsecond of the GPU and of the core, with slowdown.
    """

    def __init__(self, moments: Moments, prices: Prices, weights: np.ndarray) -> None:
        self._moments, self._prices, self.weights = moments, prices, weights
        self._terms = Grown(float, len(weights))
        self._at: Dict[Term, int] = {}
        self._path = sorted(prices.trunk.items())
        #: By set of items that have run, the path's item before its first item still to run.
        self._path_before: Dict[int, Optional[int]] = {}
        self._without_inputs = [i for i, flows in enumerate(prices.frontier.into) if not flows]

    def behind(self, moments: Sequence[Moment]) -> np.ndarray:
        """(moments, weights): the minimum cost after each moment."""
        terms: List[int] = []
        counts = []
        for moment in moments:
            before = len(terms)
            terms += [self._number(term) for term in self._terms_of(moment)]
            counts.append(len(terms) - before)
        least = np.zeros((len(moments), len(self.weights)))
        some = np.flatnonzero(counts)
        if len(some):
            starts: np.ndarray = np.cumsum(counts, dtype=int) - counts
            least[some] = np.add.reduceat(self._terms.rows[terms], starts[some], axis=0)
        return least

    def _terms_of(self, moment: Moment) -> Iterator[Term]:
        m, done = self._moments, moment.done
        if done > m.all:
            return
        there, declined = moment.copied | moment.owed, moment.declined
        for k, unread in m.live[done]:
            producer = m.producer[k]
            source = moment.on_core >> producer & 1 if producer >= 0 else 0
            yield k, unread, source, BOTH if there >> k & 1 else 1 << source, declined & unread
        for k in positions(moment.owed):
            yield OWED, k, 0, 0, 0
        for i in self._without_inputs:
            if not done >> i & 1:
                yield ITEM, i, 0, 0, 0
        if moment.engine != PAID and m.only_gpu & m.layered & ~done:
            yield ENGINE, 0, 0, 0, 0
        if moment.stands == ON_CORE and self._may_join(moment):
            yield JOINS, 0, 0, 0, 0

    def _number(self, term: Term) -> int:
        at = self._at.get(term)
        if at is None:
            at = self._at[term] = len(self._at)
            self._terms.add(self._least_of(term))
        return at

    def _least_of(self, term: Term) -> np.ndarray:
        k, unread, source, has, declined = term
        m, on_gpu, on_core = self._moments, self.weights[:, 0], self.weights[:, 1]
        if k == OWED:
            least: np.ndarray = on_gpu * m.to_gpu_us[unread]
        elif k == ITEM:
            least = self._prices.own(unread).min(axis=0)
        elif k == ENGINE:
            least = on_gpu * m.engine_us[0]
        elif k == JOINS:
            least = -on_core * m.loadable_us
        else:
            least = self._prices.message(k, list(positions(unread)), source, has, frozenset(positions(declined)))
        return least

    def _may_join(self, moment: Moment) -> bool:
        """Whether the path's next item may join the current loadable instead of opening one."""
        done = moment.done
        if done not in self._path_before:
            self._path_before[done] = next((before for item, before in self._path if not done >> item & 1), None)
        before = self._path_before[done]
        return before is not None and not moment.on_core >> before & 1
