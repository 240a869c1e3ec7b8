"""The least that is still to come in a model whose states with fewer holds told apart are known."""

from __future__ import annotations

from copy import copy
from typing import List

import numpy as np

from edgedla.placement.solvers.holds.hold_arrays import HoldArrays
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.streams.known_rows import KnownRows
from edgedla.placement.solvers.streams.prices.load_weights import Prices


class Priced:
    """By prices of the devices, before anything is known."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def rest(self, i: int, arrays: HoldArrays, states: np.ndarray) -> np.ndarray:
        """By state before item i and by weight, the least that is still to come."""
        return self._prices.rest_of_rows(i, arrays.rows(i, states))


class KnownHolds:
    """Looks states up: what no known state agrees with is in no pair below the limit.

    Args:
        arrays: with one hold less.
        graph: of their states.
    """

    def __init__(self, arrays: HoldArrays, graph: Graph) -> None:
        self._rest_at, self._graph = arrays.rest_at, graph
        self._tables: List[KnownRows] = []
        self._numbers: List[np.ndarray] = []
        self._least: List[np.ndarray] = []
        for i, states in enumerate(graph.states):
            keys = arrays.keys(i, states, self._rest_at)
            self._tables.append(KnownRows(keys, np.zeros((len(states), 0))))
            self._numbers.append(self._tables[-1].find(keys)[0])

    def by(self, weights: np.ndarray) -> KnownHolds:
        """The same by other weights.

        Args:
            weights: (weights, columns), with the new hold and break. Loadables of the rest are not counted: with one more hold
                they are paid at other times.
        """
        told, (hold, in_break, gpu, core) = weights[:, :-5], weights[:, -5:-1].T
        nothing = np.zeros(len(weights))
        # What is to come may be in the new hold; in the break behind it; only in the rest.
        of_rest = (
            (np.minimum(hold, gpu), np.minimum(np.minimum(hold, in_break), core)),
            (gpu, np.minimum(in_break, core)),
            (gpu, core),
        )
        rows = [np.concatenate([told, np.stack([*both, nothing], axis=1)], axis=1) for both in of_rest]
        distinct, at = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
        other = copy(self)
        other._least = []
        for table, numbers, ahead in zip(self._tables, self._numbers, self._graph.ahead_of(distinct)):
            least = np.full((len(table.least), len(distinct)), np.inf)
            np.minimum.at(least, numbers, ahead)
            other._least.append(least[:, at.ravel()].reshape(len(least), 3, len(weights)))
        return other

    def rest(self, i: int, arrays: HoldArrays, states: np.ndarray) -> np.ndarray:
        """By state before item i and by weight, the least that is still to come."""
        at, is_known = self._tables[i].find(arrays.keys(i, states, self._rest_at))
        least = self._least[i][at, np.clip(arrays.earliest(i, states) - self._rest_at, 0, 2)]
        least[~is_known] = np.inf
        return least


def with_one_more(weights: np.ndarray) -> np.ndarray:
    """Weights of the columns with one more hold, and the break behind it, told from the rest: they count as that does."""
    gpu, core = weights[:, -3:-2], weights[:, -2:-1]
    return np.concatenate([weights[:, :-3], gpu, core, gpu, core, core], axis=1)
