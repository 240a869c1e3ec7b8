"""The host of two models: all its placements that matter, by how many loadables they have."""

from __future__ import annotations

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.several.counted import CountedArrays
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.several.segment_arrays import without_time
from edgedla.placement.solvers.stays.counted_rest import before, ended
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.prices.load_weights import Prices
from edgedla.placement.solvers.streams.state_graph import least_in_order


def can_be_host(frontier: Frontier) -> bool:
    """True if no end of the network may be on the core and what lies between two loadables takes time.

    Then TensorRT, which walks back from the ends, forms exactly as many loadables as lie along one path, and the GPU
    segments between them cut the time into windows.
    """
    ends_on_core = any(1 in allowed and step.is_end for allowed, step in zip(frontier.allowed, frontier.steps))
    return not ends_on_core and not any(without_time(frontier))


class Host:
    """The placements that pairs below the limit may have, as if segments could run in any order.

    Args:
        rows: (weights, 2): what a microsecond counts on the GPU and on the core.
        beside: by weight, what the guest takes at least.
        states: most before one item.

    Attributes:
        graph: its columns are the devices and the number of loadables.
        weights: (weights, devices), with slowdown.
    """

    def __init__(self, pair: Pair, m: int, rows: np.ndarray, beside: np.ndarray, states: int, until: Deadline) -> None:
        frontier = pair.frontiers[m]
        self.weights = rows * pair.factors
        steps = CountedArrays(frontier, Prices(frontier, self.weights, np.ones(len(rows), bool)))
        self._columns = np.concatenate([self.weights, np.zeros((len(rows), 1))], axis=1)
        self.graph = Graph(steps, pair.items[m], self._columns, beside, pair.limit, states, until)

    def least(self, most: int) -> np.ndarray:
        """(loadables, weights): with so many loadables, up to `most`; the last row is that of more."""
        least = ended(self.graph, most, len(self.weights))
        beyond = np.full((len(least), len(self.weights)), np.inf)
        for ways in reversed(self.graph.ways):
            added = ways.load[:, 2].astype(int)
            come = beyond[ways.target]
            for count in np.unique(added[added > 0]):
                which = np.flatnonzero(added == count)
                fewest = max(most + 1 - count, 0)
                come[which] = np.minimum(come[which], least[ways.target[which], fewest:].min(axis=1))
            beyond = least_in_order(ways.first, come + ways.load[:, :2] @ self.weights.T)
            least = before(ways, least, self.weights, np.zeros(len(self.weights)))
        return np.concatenate([least[0], beyond])

    def narrowed(self, beside: np.ndarray, limit: float) -> Graph:
        """What is left of the graph below another limit."""
        return self.graph.narrowed(None, beside, limit, with_states=True)
