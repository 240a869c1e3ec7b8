"""MACs and weights of every layer, from its kind."""

from __future__ import annotations

from typing import Dict, FrozenSet, NamedTuple, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.graph.branches import lighter_branches
from edgedla.graph.kinds import Kind, kind_class, kind_of


class Work(NamedTuple):
    """Multiply-accumulates of one run of the network, and weight elements that the layer holds."""

    macs: int = 0
    weight_elements: int = 0


_NONE = Work()


def work_is_known(graph: LayerGraph) -> bool:
    """False if a layer with MACs has open sizes, or runs as often as the data decide: then shares of MACs mean nothing."""
    kinds: Dict[str, bool] = {}
    for layer in graph.layers:
        open_work = any(t.is_dynamic for t in graph.output_tensors(layer)) or graph.runs.get(layer.index, 1) is None
        if layer.index in graph.unread or not open_work:
            continue
        if layer.type not in kinds:
            kinds[layer.type] = kind_class(layer.type).macs is not Kind.macs
        if kinds[layer.type]:
            return False
    return True


def skipped_macs(graph: LayerGraph, work: Sequence[Work]) -> FrozenSet[int]:
    """The layers that the frame with the most MACs does not run: a branch of each condition."""
    return lighter_branches(graph, lambda i: work[i].macs)


def work_of(graph: LayerGraph) -> Tuple[Work, ...]:
    """One entry per layer, in order. Layer kinds without MACs and weights share one entry."""
    return graph.once("work", _work)


def _work(graph: LayerGraph) -> Tuple[Work, ...]:
    counts: Dict[str, bool] = {}
    result = []
    for layer in graph.layers:
        if counts.get(layer.type) is False:
            result.append(_NONE)
            continue
        kind = kind_of(layer, graph)
        cls = type(kind)
        counts[layer.type] = cls.macs is not Kind.macs or cls.weight_elements is not Kind.weight_elements
        runs = graph.runs.get(layer.index, 1) or 0
        result.append(Work(kind.macs * runs, kind.weight_elements) if counts[layer.type] else _NONE)
    return tuple(result)
