"""The placements of a model by how many loadables they have: graphs whose columns are its segments."""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

import numpy as np

from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.several.any_order import AnyOrder
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.known_rest import KnownRest
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.several.segment_arrays import Rest, SegmentArrays
from edgedla.placement.solvers.streams.prices.load_weights import Prices


class Row(NamedTuple):
    """The placements of a model with so many loadables: the row of its segments, the graph, and by weight their least."""

    segments: SegmentArrays
    graph: Graph
    least: np.ndarray


def segment_rows(
    pair: Pair, look: AnyOrder, m: int, most: int, states: int, limit: float, enough: float = -INFINITY
) -> Tuple[float, List[Row]]:
    """(a bound of what is left out for want of room, the rows of model m with up to `most` loadables).

    Args:
        enough: once that bound is no higher, no further row is looked at.
    """
    telling, gpu_row = look.telling()
    frontier, weights, beside = pair.frontiers[m], look.weights[m][telling], look.least[1 - m][telling]
    known = look.graph(m)
    flat: Rest
    if known is None:
        flat = Prices(frontier, weights, np.zeros(len(weights), bool))
    else:
        flat = KnownRest(frontier, known, weights)
    low = limit
    rows: List[Row] = []
    for loadables in range(most + 1):
        segments = SegmentArrays(frontier, loadables, flat)
        by_segment = weights[:, list(segments.devices)]
        fixed = by_segment @ np.array(segments.fixed)
        graph = Graph(
            segments, pair.items[m], by_segment, beside + fixed, limit, states, pair.deadline, look.companions[m],
            gpu_row,
        )  # fmt: skip
        if graph.stopped:
            return -INFINITY, rows
        low = min(low, graph.dropped)
        if not graph.empty:
            rows.append(Row(segments, graph, graph.least + fixed))
        if low <= enough:
            break
    return low, rows
