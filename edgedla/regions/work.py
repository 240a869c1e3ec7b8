"""MACs and weights of every layer, from its kind."""

from __future__ import annotations

from typing import NamedTuple, Tuple

from edgedla.graph import LayerGraph
from edgedla.graph.kinds import KINDS, Kind, kind_of


class Work(NamedTuple):
    """Multiply-accumulates of one run, and weight elements that the layer holds."""

    macs: int = 0
    weight_elements: int = 0


#: Layer types whose kind counts either; the others are not even read.
_WORKING = frozenset(
    name
    for name, kind in KINDS.items()
    if kind.macs is not Kind.macs or kind.weight_elements is not Kind.weight_elements
)
_NONE = Work()


def work_of(graph: LayerGraph) -> Tuple[Work, ...]:
    """One entry a layer, in order."""
    result = []
    for layer in graph.layers:
        if layer.type in _WORKING:
            kind = kind_of(layer, graph)
            result.append(Work(kind.macs, kind.weight_elements))
        else:
            result.append(_NONE)
    return tuple(result)
