"""What is left of both models: the graphs of their states, and placements that were met."""

from __future__ import annotations

from copy import copy
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.holds.hold_arrays import HoldArrays
from edgedla.placement.solvers.several.graph import Graph


class BothModels(NamedTuple):
    """What both models may do with so many holds told apart, by model.

    Attributes:
        met: what placements take of each column.
    """

    arrays: Tuple[HoldArrays, HoldArrays]
    graphs: Tuple[Graph, Graph]
    met: Tuple[List[np.ndarray], List[np.ndarray]]

    @property
    def sizes(self) -> List[int]:
        """By model, how many ways there are."""
        return [sum(len(ways.target) for ways in graph.ways) for graph in self.graphs]

    def having(self, m: int, graph: Graph, arrays: Optional[HoldArrays] = None) -> BothModels:
        """With another graph of model m."""
        a, g, met = list(self.arrays), list(self.graphs), [list(of_model) for of_model in self.met]
        if arrays is not None:
            a[m], met[m] = arrays, []
        g[m] = graph
        return BothModels((a[0], a[1]), (g[0], g[1]), (met[0], met[1]))

    def closed(self) -> BothModels:
        """With one column for the rest of either model."""
        graphs: List[Graph] = []
        for graph in self.graphs:
            summed = copy(graph)
            summed.ways = [of_item._replace(load=_summed(of_item.load)) for of_item in graph.ways]
            graphs.append(summed)
        met = [[_summed(load) for load in of_model] for of_model in self.met]
        return BothModels(self.arrays, (graphs[0], graphs[1]), (met[0], met[1]))

    def below(self, limit: float, rows: Sequence[np.ndarray], beside: Sequence[np.ndarray]) -> BothModels:
        """Without the placements met that are in no pair below the limit, by these weights."""
        met = [[load for load in self.met[m] if (rows[m] @ load + beside[m]).max() < limit] for m in (0, 1)]
        return self._replace(met=(met[0], met[1]))


def _summed(load: np.ndarray) -> np.ndarray:
    """With the last three columns, those of the rest, as one."""
    return np.concatenate([load[..., :-3], load[..., -3:].sum(axis=-1, keepdims=True)], axis=-1)
