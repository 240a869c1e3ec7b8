"""Both models' moments and ways as arrays; a moment is expanded when a label first reaches it."""

from __future__ import annotations

import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.labels.grown import Grown
from edgedla.placement.solvers.labels.moments import Moment, Moments
from edgedla.placement.solvers.labels.rests import Rests
from edgedla.placement.solvers.streams.rows import ranges

#: Moments expanded between two checks of the clock.
AT_ONCE = 32


class Known(NamedTuple):
    """What is known of moments and ways.

    Attributes:
        first, ways: per moment, its first way and the number of its ways; -1 ways until it is expanded.
        acquiring: per moment, how many of its ways acquire the GPU; these come first.
        ended: per moment, whether its model has ended.
        rest: (moments, weights): a lower bound of the cost after each.
        telling: the same for the telling weights, in single precision.
        target, gpu_us, core_us, acquires: per way, as in `Way`.
    """

    first: np.ndarray
    ways: np.ndarray
    acquiring: np.ndarray
    ended: np.ndarray
    rest: np.ndarray
    telling: np.ndarray
    target: np.ndarray
    gpu_us: np.ndarray
    core_us: np.ndarray
    acquires: np.ndarray


class Timelines:
    """The moments of two models, numbered in the order they are reached.

    Attributes:
        starts: per model, its first moment.
        choices: per way, (model, item, device).
    """

    def __init__(self, models: Sequence[Moments], rests: Sequence[Rests]) -> None:
        self._models, self._rests = models, rests
        #: Rows of weights that give most bounds.
        self.telling: np.ndarray = np.arange(len(rests[0].weights))
        self._at: List[Dict[Moment, int]] = [{}, {}]
        self._moments: List[Tuple[int, Moment]] = []
        self.choices: List[Tuple[int, int, int]] = []
        self._model, self._run, self._rest = Grown(np.int8), Grown(int), Grown(float, len(rests[0].weights))
        self._told = Grown(np.float32, len(self.telling))
        self._first, self._ways, self._acquiring = Grown(int), Grown(int), Grown(int)
        self._ended, self._acquires, self._target = Grown(bool), Grown(bool), Grown(int)
        self._us = Grown(float, 2)
        self.starts = [self._numbers(m, [model.start])[0] for m, model in enumerate(models)]

    @property
    def model(self) -> np.ndarray:
        """Per moment, its model."""
        return self._model.rows

    @property
    def size(self) -> int:
        """The number of moments so far."""
        return len(self._moments)

    @property
    def known(self) -> Known:
        us = self._us.rows
        return Known(
            self._first.rows, self._ways.rows, self._acquiring.rows, self._ended.rows, self._rest.rows,
            self._told.rows, self._target.rows, us[:, 0], us[:, 1], self._acquires.rows,
        )  # fmt: skip

    def look(self, moments: np.ndarray, most: int, deadline: float) -> Optional[Known]:
        """All that is known, with these moments expanded; None if that takes too many moments or too long."""
        new = np.unique(moments)
        new = new[self._ways.rows[new] < 0]
        for m in (0, 1):
            of_model = new[self.model[new] == m]
            for start in range(0, len(of_model), AT_ONCE):
                if self.size > most or time.monotonic() > deadline:
                    return None
                self._look(m, of_model[start : start + AT_ONCE])
        return self.known

    def go_by(self, rows: np.ndarray) -> None:
        """Makes these rows of weights the telling ones."""
        self.telling, self._told = rows, Grown(np.float32, len(rows))
        self._told.add(self._rest.rows[:, rows])

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
        ways = [self._models[m].ways(self._moments[k][1]) for k in moments]
        for of_moment in ways:
            of_moment.sort(key=lambda w: not w.acquires)
        flat = [w for of_moment in ways for w in of_moment]
        counts = np.array([len(of_moment) for of_moment in ways])
        self._first.rows[moments] = len(self.choices) + np.cumsum(counts) - counts
        self._ways.rows[moments] = counts
        self._acquiring.rows[moments] = [sum(w.acquires for w in of_moment) for of_moment in ways]
        self.choices += [(m, w.item, w.device) for w in flat]
        self._us.add([(w.gpu_us, w.core_us) for w in flat])
        self._acquires.add([w.acquires for w in flat])
        self._target.add(self._numbers(m, [w.moment for w in flat]))

    def _numbers(self, m: int, moments: Sequence[Moment]) -> List[int]:
        """The numbers of these moments of model m; new ones are added."""
        at, new, numbers = self._at[m], [], []
        for moment in moments:
            number = at.get(moment)
            if number is None:
                number = at[moment] = len(self._moments)
                self._moments.append((m, moment))
                new.append(moment)
            numbers.append(number)
        if new:
            model, nobody = self._models[m], np.full(len(new), -1)
            ended = [moment.done > model.all for moment in new]
            self._model.add(np.full(len(new), m))
            self._ended.add(ended)
            self._run.add([model.items + 1 if e else bin(x.done).count("1") for e, x in zip(ended, new)])
            rest = self._rests[m].behind(new)
            self._rest.add(rest)
            self._told.add(rest[:, self.telling])
            self._first.add(nobody)
            self._ways.add(nobody)
            self._acquiring.add(nobody)
        return numbers
