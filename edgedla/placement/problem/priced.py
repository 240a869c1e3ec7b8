"""What a network costs whatever the verdicts are, worked out once per graph and cost model for every problem made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Dict, FrozenSet, List, Sequence, Tuple

from edgedla.costs.layer_costs import LayerCosts
from edgedla.costs.model import CostModel
from edgedla.costs.operators import operators_of
from edgedla.errors import ModelError, UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.branches import Choice, choices_of
from edgedla.graph.open_sizes import data_sizes_text, open_sizes_text
from edgedla.placement.problem.loops import in_all_passes, loops_of, of_longer_branches
from edgedla.placement.problem.problem import Flow, Item, Link
from edgedla.regions.fusions import UnitGraph, fuse
from edgedla.vocabulary import GPU


@dataclass(frozen=True)
class Priced:
    """One network at the prices of one cost model.

    Problems that differ in verdicts, pins or limits share its items, and the flows of those with the same items.

    Attributes:
        layer_costs: of one frame: all passes of loops, the longer branch of each condition.
        choices: the branches of each condition; `skipped`: the layers of the shorter ones.
        links: (unit, the one unit that reads it): TensorRT runs both as one operator if they may have the same devices.
        in_loops: the same for units in the passes of one loop, which share a device if the DLA may run the first.
        loops: the units of each loop.
        orders: the units of each item in topological order, by items in any order; items, edges: those made so far. All by what they
            depend on.
    """

    units: UnitGraph
    layer_costs: LayerCosts
    choices: Tuple[Choice, ...]
    skipped: FrozenSet[int]
    links: Tuple[Tuple[int, int], ...]
    in_loops: Tuple[Tuple[int, int], ...]
    loops: Tuple[Tuple[int, ...], ...]
    orders: Dict[Tuple[Tuple[int, ...], ...], Tuple[Tuple[int, ...], ...]] = field(default_factory=dict)
    items: Dict[Tuple[object, ...], Item] = field(default_factory=dict)
    edges: Dict[Tuple[object, ...], Tuple[Sequence[Flow], Sequence[Link]]] = field(default_factory=dict)


def require_sizes(graph: LayerGraph) -> None:
    """Refuses graphs with open sizes, because costs need numbers.

    Raises:
        UsageError: a network input leaves a size open. ModelError: a size, or how often a loop runs, depends on the data.
    """
    text = open_sizes_text(graph)
    if text:
        raise UsageError(text, where=graph.name)
    of_the_data = data_sizes_text(graph)
    if of_the_data:
        raise ModelError(
            of_the_data,
            where=graph.name,
            hint="end the model before the operator that makes it (NonMaxSuppression, NonZero, Loop, ...): `edgedla fix --only decoder-cut "
            "--change-outputs` cuts a detector's decoder off",
        )


def priced(graph: LayerGraph, costs: CostModel) -> Priced:
    """The network at these prices, which a graph of up to MOST_CACHED layers keeps.

    Raises:
        UsageError, ModelError: as `require_sizes`.
    """
    return graph.once(f"priced {costs.number}", partial(_priced, costs))


def _priced(costs: CostModel, graph: LayerGraph) -> Priced:
    require_sizes(graph)
    units = fuse(graph)
    layer_costs = in_all_passes(costs.layer_costs(graph), graph, costs)
    choices = choices_of(graph, lambda layer: layer_costs[layer, GPU].latency_us)
    skipped = frozenset(i for choice in choices for i in choice.lighter)
    links = [link for operator in operators_of(graph) for link in operator.links]
    around = graph.loops_around
    passes = [(i, r) for i in graph.runs for r in graph.successors(i) if around.get(r) == around[i]]
    return Priced(
        units,
        of_longer_branches(layer_costs, skipped),
        choices,
        skipped,
        _joinable(graph, units, links),
        _joinable(graph, units, passes),
        loops_of(graph, units),
    )


def _joinable(graph: LayerGraph, units: UnitGraph, pairs: Sequence[Tuple[int, int]]) -> Tuple[Tuple[int, int], ...]:
    """The pairs of layers as pairs of units of which only the second reads the first; the network does not hand it out."""
    found: List[Tuple[int, int]] = []
    for producer, consumer in pairs:
        a, b = units.unit_of.get(producer), units.unit_of.get(consumer)
        if a is None or b is None or a == b or units.successors[a] != (b,):
            continue
        if graph.output_names.isdisjoint(units.units[a].outputs):
            found.append((a, b))
    return tuple(found)
