"""The least that is still to come in a model whose states that matter are known, whatever runs in which segment."""

from __future__ import annotations

from typing import List

import numpy as np

from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.streams.columns import Columns
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.known_rows import KnownRows


class KnownRest:
    """Looks states up: what no known state agrees with in devices, tensors and engine is in no pair below the limit.

    Args:
        graph: of the model's placements in any order; its columns are the devices and, last, the number of loadables.
        weights: (weights, devices). Loadables are not counted.
    """

    def __init__(self, frontier: Frontier, graph: Graph, weights: np.ndarray) -> None:
        without = -weights[:, 1:].sum(axis=1) * frontier.loadable_us
        ahead = graph.ahead_of(np.concatenate([weights, without[:, None]], axis=1))
        self._columns = [Columns(frontier, i) for i in range(len(graph.states))]
        self._known: List[KnownRows] = []
        for columns, states, least in zip(self._columns, graph.states, ahead):
            self._known.append(KnownRows(_cleared(columns, columns.rows(states)), least))

    def rest_of_rows(self, i: int, states: np.ndarray) -> np.ndarray:
        """By state before item i, as `Columns` has them, and by weight the least that is still to come."""
        if i == len(self._known) - 1:
            return np.zeros((len(states), self._known[i].least.shape[1]))
        known = self._known[i]
        at, is_known = known.find(_cleared(self._columns[i], states))
        least: np.ndarray = known.least[at]
        least[~is_known] = np.inf
        return least


def _cleared(columns: Columns, states: np.ndarray) -> np.ndarray:
    """The states without what counts loadables."""
    rows = states.copy()
    for item in range(columns.items):
        rows[:, columns.device(item) + 1 : columns.device(item + 1)] = 0
    rows[:, columns.counts_at : columns.engine_at] = 0
    return rows
