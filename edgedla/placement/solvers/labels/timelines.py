"""Both models' moments and ways as arrays; a moment is expanded when a label first reaches it."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.labels.bits import numbered
from edgedla.placement.solvers.labels.execution import Execution
from edgedla.placement.solvers.labels.grown import Grown
from edgedla.placement.solvers.labels.moments import Moments
from edgedla.placement.solvers.labels.rests import Rests
from edgedla.placement.solvers.streams.rows import ranges

#: Moments expanded between two checks of the clock.
AT_ONCE = 2_048


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

    def __init__(self, models: Sequence[Execution], rests: Sequence[Rests]) -> None:
        self._models, self._rests = models, rests
        #: Rows of weights that give most bounds.
        self.telling: np.ndarray = np.arange(len(rests[0].weights))
        self._at: List[Dict[bytes, int]] = [{}, {}]
        #: Per model, the columns of its moments; per moment, its row there.
        self._columns = [[Grown(c.dtype, c.shape[1]) for c in model.start] for model in models]
        self._row = Grown(int)
        self._model, self._run, self._rest = Grown(np.int8), Grown(int), Grown(float, len(rests[0].weights))
        self._told = Grown(np.float32, len(self.telling))
        self._first, self._ways, self._acquiring = Grown(int), Grown(int), Grown(int)
        self._ended, self._acquires, self._target = Grown(bool), Grown(bool), Grown(int)
        self._holds = Grown(np.int8)
        self._us, self._choices = Grown(float, 2), Grown(int, 3)
        self._excess = Grown(np.float32, len(self.telling))
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
            self._first.rows, self._ways.rows, self._acquiring.rows, self._ended.rows, self._holds.rows,
            self._rest.rows, self._told.rows, self._target.rows, us[:, 0], us[:, 1], self._acquires.rows, self._excess.rows,
        )  # fmt: skip

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
        self.telling, self._told = rows, Grown(np.float32, len(rows))
        self._told.add(self._rest.rows[:, rows])
        self._excess = Grown(np.float32, len(rows))
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
