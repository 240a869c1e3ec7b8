"""The placements of the host with so many gaps: beside each of its loadables there is one, in which the guest may stay."""

from __future__ import annotations

from copy import copy
from typing import List, Sequence

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.several.segment_arrays import Rest
from edgedla.placement.solvers.stays.turning import TurningSegments

#: States before one item.
STATES = 40_000


class Gaps:
    """
    Args:
        m: the host.
        count: of the gaps.
        rows: (weights, 2): what a microsecond counts on the GPU and on the core.
        beside: by weight, what the guest takes at least.

    Attributes:
        graph: its columns are the segments.
        fixed_us: what loadables take in each segment by being there, with slowdown.
    """

    def __init__(
        self,
        pair: Pair,
        m: int,
        count: int,
        rows: np.ndarray,
        flat: Rest,
        beside: np.ndarray,
        limit: float,
        until: Deadline,
    ) -> None:
        self.count = count
        self._segments = TurningSegments(pair.frontiers[m], count, flat)
        self._factors = pair.factors[list(self._segments.devices)]
        self.fixed_us: np.ndarray = np.array(self._segments.fixed) * self._factors
        weights = rows[:, list(self._segments.devices)]
        self._fixed = weights @ self.fixed_us
        self.graph = Graph(
            self._segments, pair.items[m], weights * self._factors, beside + self._fixed, limit, STATES, until
        )

    @property
    def least(self) -> np.ndarray:
        """By weight."""
        least: np.ndarray = self.graph.least + self._fixed
        return least

    def narrow(self, beside: np.ndarray, limit: float) -> None:
        """Leaves out what no pair below the limit has, now that the guest takes at least this."""
        self.graph.narrow(limit, beside + self._fixed, None)

    def by(self, weights: np.ndarray, beside: np.ndarray, limit: float) -> Graph:
        """What is left of the graph by other weights of the segments; its columns count slowdown."""
        slowed = copy(self.graph)
        slowed.ways = [of_item._replace(load=of_item.load * self._factors) for of_item in self.graph.ways]
        return slowed.narrowed(weights, beside + weights @ self.fixed_us, limit)

    def devices(self, choices: Sequence[int]) -> List[int]:
        """The position of the device of each item, from its segment."""
        return [self._segments.devices[k] for k in choices]
