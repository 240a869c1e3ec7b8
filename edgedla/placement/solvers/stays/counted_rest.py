"""The least that is still to come in a model whose states that matter are known, with so many loadables."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from edgedla.placement.solvers.several.graph import Graph, Ways
from edgedla.placement.solvers.streams.columns import Columns
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.known_rows import KnownRows
from edgedla.placement.solvers.streams.state_graph import least_in_order

#: Most numbers that are known in all.
MOST = 20_000_000


def is_known(graph: Graph, weights: int, most: int) -> bool:
    """Whether there is room for what `CountedRest` knows of a graph."""
    return sum(map(len, graph.states)) * weights * (most + 1) <= MOST


class CountedRest:
    """Looks states up by the loadables that they still add, which stand where a row counts loadables.

    Args:
        graph: of the model's placements in any order; its columns are the devices and, last, the number of loadables.
        weights: (weights, devices). Loadables are not counted.
        most: loadables.
    """

    def __init__(self, frontier: Frontier, graph: Graph, weights: np.ndarray, most: int) -> None:
        self._columns = [Columns(frontier, i) for i in range(len(graph.states))]
        loadable = weights[:, 1] * frontier.loadable_us
        least = ended(graph, most, len(weights))
        known = [_told(self._columns[-1], graph.states[-1], least)]
        for columns, states, ways in zip(self._columns[-2::-1], graph.states[-2::-1], reversed(graph.ways)):
            least = before(ways, least, weights, loadable)
            known.append(_told(columns, states, least))
        self._known: List[KnownRows] = known[::-1]

    def rest_of_rows(self, i: int, states: np.ndarray) -> np.ndarray:
        """By state before item i, as `Columns` has them, and by weight, the least that is still to come."""
        known, counted = self._known[i], states[:, self._columns[i].counts_at]
        if i == len(self._known) - 1:
            at_end: np.ndarray = np.where(counted[:, None] == 0, np.zeros(known.least.shape[2]), np.inf)
            return at_end
        at, is_known = known.find(_cleared(self._columns[i], states))
        least: np.ndarray = known.least[at, counted]
        least[~is_known] = np.inf
        return least


def ended(graph: Graph, most: int, weights: int) -> np.ndarray:
    """(states, loadables, weights): behind the last item."""
    least = np.full((int(graph.ways[-1].target.max()) + 1, most + 1, weights), np.inf)
    least[:, 0] = 0.0
    return least


def before(ways: Ways, least: np.ndarray, weights: np.ndarray, without: np.ndarray) -> np.ndarray:
    """The same before an item, from the one behind it.

    Args:
        without: by weight, what is not counted of each loadable.
    """
    most = least.shape[1] - 1
    behind = np.full((len(ways.target), *least.shape[1:]), np.inf)
    added = ways.load[:, 2].astype(int)
    for count in np.unique(added[added <= most]):
        which = np.flatnonzero(added == count)
        behind[which, count:] = least[ways.target[which], : most + 1 - count] - count * without
    behind += (ways.load[:, :2] @ weights.T)[:, None]
    flat = least_in_order(ways.first, behind.reshape(len(behind), -1))
    return flat.reshape(len(flat), *least.shape[1:])


def _told(columns: Columns, states: Any, least: np.ndarray) -> KnownRows:
    """Of one position: by (row, loadables, weight) the least behind it."""
    return KnownRows(_cleared(columns, columns.rows(states)), least)


def _cleared(columns: Columns, states: np.ndarray) -> np.ndarray:
    """The states without the numbers of loadables, but with the slack of items."""
    rows = states.copy()
    rows[:, columns.counts_at : columns.engine_at] = 0
    return rows
