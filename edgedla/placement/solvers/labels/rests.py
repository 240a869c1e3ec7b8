"""The minimum that the rest of a model takes, for any set of items that has run: `Prices` beyond prefixes of one order."""

from __future__ import annotations

from typing import Dict

import numpy as np

from edgedla.placement.solvers.labels.bits import has, keys_of, meet, members, numbered
from edgedla.placement.solvers.labels.execution import Execution
from edgedla.placement.solvers.labels.grown import Grown
from edgedla.placement.solvers.labels.moments import NO_ITEM, ON_CORE, PAID, Moments
from edgedla.placement.solvers.streams.prices.load_weights import Prices

#: A tensor's set of devices, as bits: both.
BOTH = 3


class Rests:
    """Per weight, a lower bound of the cost after a moment: a sum of terms, those of tensors computed once.

    Args:
        prices: of the model's frontier, with the loadables along the path counted.
        weights: (weights, 2): per microsecond of the GPU and of the core, with slowdown.
    """

    def __init__(self, execution: Execution, prices: Prices, weights: np.ndarray) -> None:
        self._execution, self._prices, self.weights = execution, prices, weights
        self._terms = Grown(float, len(weights))
        self._at: Dict[bytes, int] = {}
        path = sorted(prices.trunk.items())
        self._path = np.array([item for item, _ in path], int)
        #: Per item of the path, the item before it.
        self._path_before = np.array([NO_ITEM if before is None else before for _, before in path], int)
        self._without_inputs = [(i, prices.own(i).min(axis=0)) for i, k in enumerate(prices.frontier.into) if not k]

    def behind(self, moments: Moments) -> np.ndarray:
        """(moments, weights): the minimum cost after each moment."""
        x, (on_gpu, on_core) = self._execution.arrays, self.weights.T
        count = len(moments.done)
        row, k = members(moments.live)
        least = np.zeros((count, len(self.weights)))
        if len(row):
            at: np.ndarray = np.flatnonzero(np.diff(row, prepend=-1))
            terms = self._of_tensors(moments, row, k)
            least[row[at]] = np.add.reduceat(self._terms.rows[terms], at, axis=0)
        row, k = members(moments.owed)
        least += np.bincount(row, x.to_gpu_us[k], count)[:, None] * on_gpu
        left = ~moments.done
        goes_on = ~self._execution.has_ended(moments)
        for i, own in self._without_inputs:
            waits = goes_on & has(left, np.arange(count), np.full(count, i))
            least += waits[:, None] * own
        calls = goes_on & (moments.engine != PAID) & meet(left, np.broadcast_to(x.only_gpu & x.layered, left.shape))
        least += calls[:, None] * (on_gpu * x.engine_us[0])
        joins = (moments.stands == ON_CORE) & self._may_join(moments)
        least -= joins[:, None] * (on_core * x.loadable_us)
        return least

    def _of_tensors(self, moments: Moments, row: np.ndarray, k: np.ndarray) -> np.ndarray:
        """The numbers of the terms of these tensors."""
        x = self._execution.arrays
        unread = x.readers[k] & ~moments.done[row]
        declined = moments.declined[row] & unread
        source = self._execution.is_on_core(moments, row, k)
        both = has(moments.copied, row, k) | has(moments.owed, row, k)
        code = (k * 4 + source * 2 + both).astype(np.uint64)
        terms = np.concatenate([code[:, None], unread, declined], axis=1)
        numbers, new = numbered(self._at, keys_of(terms), len(self._at))
        for at in new.tolist():
            on_core, has_both = int(source[at]), bool(both[at])
            readers, gone = (members(bits[at : at + 1])[1].tolist() for bits in (unread, declined))
            devices = BOTH if has_both else 1 << on_core
            self._terms.add(self._prices.message(int(k[at]), readers, on_core, devices, frozenset(gone)))
        return numbers

    def _may_join(self, moments: Moments) -> np.ndarray:
        """Per moment, whether the path's next item may join the current loadable instead of opening one."""
        count = len(moments.done)
        if not len(self._path):
            return np.zeros(count, bool)
        rows = np.arange(count)
        left = has(~moments.done, rows[:, None], self._path[None])
        before = self._path_before[left.argmax(axis=1)]
        joins: np.ndarray = left.any(axis=1) & (before >= 0) & ~has(moments.on_core, rows, np.maximum(before, 0))
        return joins
