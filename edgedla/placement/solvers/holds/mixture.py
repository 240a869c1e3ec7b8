"""Mixtures of paths through a schedule: the one that says most of two models' placements."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.highs import LinearModel
from edgedla.placement.solvers.several.graph import Graph

#: How near to the highest bound of any mixture a climb ends, as a share of the limit.
NEAR = 3e-4

#: How far each step goes from the best mixture to the one that looks highest.
STRIDES: Tuple[float, ...] = (1.0, 0.6, 0.3, 0.1)

#: Of these, those whose placements are met.
MET = 2


def climbed(
    graphs: Sequence[Graph],
    paths: Sequence[np.ndarray],
    limit: float,
    until: Deadline,
    steps: int,
    telling: int,
    met: Sequence[List[np.ndarray]],
) -> Tuple[float, np.ndarray]:
    """(the highest bound that mixtures give, those that say most) until then.

    A schedule is as long as its longest path, so no shorter than any mixture of paths; and that falls apart into a sum over
    the columns of each model, whose least the model's graph gives. By placements that were met, a linear program says which
    mixture may be higher.

    Args:
        graphs: by model.
        paths: by model, (paths, columns).
        telling: how many of those that say most.
        met: by model what placements take of each column, as far as known; those that are met are added.
    """
    master = _Master(len(paths[0]), limit)
    best, at = -INFINITY, np.full(len(paths[0]), 1.0 / len(paths[0]))
    for m in (0, 1):
        for load in met[m]:
            master.meet(m, paths[m] @ load)
    rows = at[None]
    if all(met):
        rows = _towards(at, master.highest()[1])
    tried: List[Tuple[np.ndarray, np.ndarray]] = []
    for _ in range(steps):
        weights = [rows @ p for p in paths]
        ahead = [graph.ahead_of(w) for graph, w in zip(graphs, weights)]
        values = ahead[0][0][0] + ahead[1][0][0]
        tried.append((values, rows))
        k = int(values.argmax())
        if values[k] > best:
            best, at = float(values[k]), rows[k]
        if best >= limit or until.passed:
            break
        for row in np.argsort(-values)[:MET]:
            for m in (0, 1):
                load, _ = graphs[m].way_through(weights[m][row], [a[:, row] for a in ahead[m]])
                met[m].append(load)
                master.meet(m, paths[m] @ load)
        highest, mixture = master.highest()
        if highest - best < NEAR * limit:
            break
        rows = _towards(at, mixture)
    values, rows = (np.concatenate(x) for x in zip(*tried))
    return best, rows[np.argsort(-values, kind="stable")[:telling]]


def _towards(at: np.ndarray, mixture: np.ndarray) -> np.ndarray:
    return np.array([at + stride * (mixture - at) for stride in STRIDES])


class _Master:
    """Which mixture of paths is highest, as far as the placements met say."""

    def __init__(self, paths: int, limit: float) -> None:
        self._model, self._paths = LinearModel(), paths
        shares = [self._model.column(upper=1.0) for _ in range(paths)]
        self._least = [self._model.column(cost=-1.0, upper=4.0 * limit) for _ in (0, 1)]
        self._model.equal({k: 1.0 for k in shares}, 1.0)

    def meet(self, m: int, lengths: np.ndarray) -> None:
        """A placement of model m, with what it takes of each path."""
        self._model.at_least({**dict(enumerate(lengths.tolist())), self._least[m]: -1.0})

    def highest(self) -> Tuple[float, np.ndarray]:
        """(what the highest mixture may reach, the shares of its paths)."""
        answer = self._model.solve(NEVER, 0.0)
        if answer.status != "optimal":
            return -INFINITY, np.full(self._paths, 1.0 / self._paths)
        shares = np.maximum(np.array(answer.values[: self._paths]), 0.0)
        return -answer.bound, shares / shares.sum()
