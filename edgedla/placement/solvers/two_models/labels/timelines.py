"""Both models' moments, numbered as the search meets them: what may come next, and the least time from each to the end."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.busiest.rows import ranges
from edgedla.placement.solvers.two_models.labels.bit_sets import GrowingArray, has, keys_of, meet, members, numbered
from edgedla.placement.solvers.two_models.labels.execution import Execution
from edgedla.placement.solvers.two_models.labels.moments import NO_ITEM, Call, Moments, Stands


class TimeAhead:
    """Per weight, a lower bound of the cost after a moment: a sum of terms, those of tensors computed once.

    Args:
        prices: of the model's frontier, with the loadables along the path counted.
        weights: (weights, 2): per microsecond of the GPU and of the core, with slowdown.
    """

    def __init__(self, execution: Execution, prices: Prices, weights: np.ndarray) -> None:
        self._execution, self._prices, self.weights = execution, prices, weights
        self._terms = GrowingArray(float, len(weights))
        self._at: Dict[bytes, int] = {}
        path = sorted(prices.trunk.items())
        self._path = np.array([item for item, _ in path], int)
        #: Per item of the path, the item before it.
        self._path_before = np.array([NO_ITEM if before is None else before for _, before in path], int)
        self._without_inputs = [(i, prices.own[i].min(axis=0)) for i, k in enumerate(prices.frontier.into) if not k]

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
        calls = goes_on & (moments.engine != Call.PAID) & meet(left, np.broadcast_to(x.only_gpu & x.layered, left.shape))
        least += calls[:, None] * (on_gpu * x.engine_us[0])
        joins = (moments.stands == Stands.ON_CORE) & self._may_join(moments)
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
            devices = 0b11 if has_both else 1 << on_core
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


#: Moments expanded, or labels bounded, at once: their intermediate values fit the processor's cache, and the clock is checked in between.
AT_ONCE = 4_096


class Known(NamedTuple):
    """What is known of moments and ways.

    Attributes:
        first, ways: per moment, its first way and the number of its ways; -1 ways until it is expanded.
        acquiring: per moment, how many of its ways acquire the GPU; these come first.
        ended: per moment, whether its model has ended.
        holds: per moment, whether its model holds the GPU, as `Execution.holds` has it.
        rest: (moments, weights): a lower bound of the cost after each.
        telling: the same for the telling weights, in single precision.
        target, gpu_us, core_us, acquires: per way, as in `Ways`.
        excess: (ways, telling weights): by how much a way raises the bound of its moment at least, in single precision.
    """

    first: np.ndarray
    ways: np.ndarray
    acquiring: np.ndarray
    ended: np.ndarray
    holds: np.ndarray
    rest: np.ndarray
    telling: np.ndarray
    target: np.ndarray
    gpu_us: np.ndarray
    core_us: np.ndarray
    acquires: np.ndarray
    excess: np.ndarray


class Timelines:
    """The moments of two models, numbered in the order they are reached.

    Attributes:
        starts: per model, its first moment.
    """

    def __init__(self, models: Sequence[Execution], rests: Sequence[TimeAhead]) -> None:
        self._models, self._rests = models, rests
        #: Rows of weights that give most bounds.
        self.telling: np.ndarray = np.arange(len(rests[0].weights))
        self._at: List[Dict[bytes, int]] = [{}, {}]
        #: Per model, the columns of its moments; per moment, its row there.
        self._columns = [[GrowingArray(c.dtype, c.shape[1]) for c in model.start] for model in models]
        self._row = GrowingArray(int)
        self._model, self._run, self._rest = (
            GrowingArray(np.int8),
            GrowingArray(int),
            GrowingArray(float, len(rests[0].weights)),
        )
        self._told = GrowingArray(np.float32, len(self.telling))
        self._first, self._ways, self._acquiring = GrowingArray(int), GrowingArray(int), GrowingArray(int)
        self._ended, self._acquires, self._target = GrowingArray(bool), GrowingArray(bool), GrowingArray(int)
        self._holds = GrowingArray(np.int8)
        self._us, self._choices = GrowingArray(float, 2), GrowingArray(int, 3)
        self._excess = GrowingArray(np.float32, len(self.telling))
        self.starts = [int(self._numbers(m, x.start, np.zeros(1, int))[0]) for m, x in enumerate(models)]

    @property
    def model(self) -> np.ndarray:
        """Per moment, its model."""
        return self._model.rows

    @property
    def run(self) -> np.ndarray:
        """Per moment, how many items have run."""
        return self._run.rows

    @property
    def size(self) -> int:
        """The number of moments so far."""
        return len(self._model.rows)

    @property
    def choices(self) -> np.ndarray:
        """(ways, 3): model, item, device."""
        return self._choices.rows

    @property
    def known(self) -> Known:
        us = self._us.rows
        return Known(
            self._first.rows,
            self._ways.rows,
            self._acquiring.rows,
            self._ended.rows,
            self._holds.rows,
            self._rest.rows,
            self._told.rows,
            self._target.rows,
            us[:, 0],
            us[:, 1],
            self._acquires.rows,
            self._excess.rows,
        )

    def look(self, moments: np.ndarray, most: int, deadline: Deadline) -> Optional[Known]:
        """All that is known, with these moments expanded; None if that takes too many moments or too long."""
        new = np.unique(moments)
        new = new[self._ways.rows[new] < 0]
        for m in (0, 1):
            of_model = new[self.model[new] == m]
            for start in range(0, len(of_model), AT_ONCE):
                if self.size > most or deadline.passed:
                    return None
                self._look(m, of_model[start : start + AT_ONCE])
        return self.known

    def go_by(self, rows: np.ndarray) -> None:
        """Makes these rows of weights the telling ones."""
        self.telling, self._told = rows, GrowingArray(np.float32, len(rows))
        self._told.add(self._rest.rows[:, rows])
        self._excess = GrowingArray(np.float32, len(rows))
        moments = np.flatnonzero(self._ways.rows > 0)
        moments = moments[np.argsort(self._first.rows[moments])]
        origin = np.repeat(moments, self._ways.rows[moments])
        for start in range(0, len(origin), AT_ONCE):
            self._add_excess(origin[start : start + AT_ONCE])

    def look_ahead(self) -> None:
        """Raises `rest` of each expanded moment to the minimum over its ways, from the last moments to the first."""
        known = self.known
        for m in (0, 1):
            looked = np.flatnonzero((known.ways > 0) & (self.model == m))
            run, weights = self._run.rows[looked], self._rests[m].weights.T
            for step in range(int(run.max(initial=-1)), -1, -1):
                moments = looked[run == step]
                if not len(moments):
                    continue
                counts = known.ways[moments]
                way = ranges(known.first[moments], counts)
                behind = self._us.rows[way] @ weights + known.rest[known.target[way]]
                least = np.minimum.reduceat(behind, np.cumsum(counts) - counts, axis=0)
                known.rest[moments] = np.maximum(known.rest[moments], least)

    def _look(self, m: int, moments: np.ndarray) -> None:
        rows = self._row.rows[moments]
        ways = self._models[m].ways(Moments(*(column.rows[rows] for column in self._columns[m])))
        counts = np.bincount(ways.parent, minlength=len(moments))
        self._first.rows[moments] = len(self._choices.rows) + np.cumsum(counts) - counts
        self._ways.rows[moments] = counts
        self._acquiring.rows[moments] = np.bincount(ways.parent[ways.acquires], minlength=len(moments))
        self._choices.add(np.stack([np.full(len(ways.item), m), ways.item, ways.device], axis=1))
        self._us.add(np.stack([ways.gpu_us, ways.core_us], axis=1))
        self._acquires.add(ways.acquires)
        self._target.add(self._numbers(m, ways.moments, self._run.rows[moments][ways.parent] + 1))
        self._add_excess(moments[ways.parent])

    def _add_excess(self, origin: np.ndarray) -> None:
        """For the next ways, which begin at these moments."""
        begin = len(self._excess.rows)
        way = slice(begin, begin + len(origin))
        per_us = np.stack([rests.weights[self.telling].T for rests in self._rests])[self.model[origin]]
        us, target = self._us.rows[way], self._target.rows[way]
        excess = us[:, :1] * per_us[:, 0] + us[:, 1:] * per_us[:, 1]
        excess += self._rest.rows[target[:, None], self.telling]
        self._excess.add(excess - self._rest.rows[origin[:, None], self.telling])

    def _numbers(self, m: int, moments: Moments, run: np.ndarray) -> np.ndarray:
        """The numbers of these moments of model m, after so many items; new ones are added."""
        numbers, new = numbered(self._at[m], moments.keys(), self.size)
        if len(new):
            added, nobody = moments.taken(new), np.full(len(new), -1)
            self._row.add(len(self._columns[m][0].rows) + np.arange(len(new)))
            for column, values in zip(self._columns[m], added):
                column.add(values)
            self._model.add(np.full(len(new), m))
            self._ended.add(self._models[m].has_ended(added))
            self._holds.add(self._models[m].holds(added))
            self._run.add(run[new])
            rest = self._rests[m].behind(added)
            self._rest.add(rest)
            self._told.add(rest[:, self.telling])
            self._first.add(nobody)
            self._ways.add(nobody)
            self._acquiring.add(nobody)
        return numbers
