"""Loops and conditions: units that feed each other, which the GPU runs as one piece, and what all passes cost."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Dict, FrozenSet, List, Mapping, Sequence, Set, Tuple

from edgedla.costs.cost import Cost, device_kind
from edgedla.costs.engines import PRECISION_BYTES
from edgedla.costs.layer_costs import LayerCosts
from edgedla.costs.model import CostModel
from edgedla.costs.work import WORK_CLASS, work_of
from edgedla.graph import LayerGraph
from edgedla.graph.layer_graph import LOOP_ENTRIES
from edgedla.regions.fusions import Unit, UnitGraph
from edgedla.vocabulary import GPU


def loops_of(graph: LayerGraph, units: UnitGraph) -> Tuple[Tuple[int, ...], ...]:
    """Strongly connected components of more than one unit, each sorted (Tarjan 1972, without recursion).

    A RECURRENCE reads what a later layer of its loop writes, so these are the loops; they cannot be cut.
    """
    if not graph.loops_around:
        return ()
    sources = [tuple(dict.fromkeys(p for p, _ in unit.inputs)) for unit in units.units]
    index: Dict[int, int] = {}
    low: Dict[int, int] = {}
    stack: List[int] = []
    on_stack: Set[int] = set()
    loops: List[Tuple[int, ...]] = []
    for root in range(len(sources)):
        if root in index:
            continue
        work = [(root, iter(sources[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, feeding = work[-1]
            source = next(feeding, None)
            if source is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    loop: List[int] = []
                    while not loop or loop[-1] != node:
                        loop.append(stack.pop())
                        on_stack.discard(loop[-1])
                    if len(loop) > 1:
                        loops.append(tuple(sorted(loop)))
            elif source not in index:
                index[source] = low[source] = len(index)
                stack.append(source)
                on_stack.add(source)
                work.append((source, iter(sources[source])))
            elif source in on_stack:
                low[node] = min(low[node], index[source])
    return tuple(sorted(loops))


def loop_pieces(graph: LayerGraph, units: UnitGraph) -> Dict[int, Unit]:
    """For each unit of a loop, the whole loop as one unit."""
    pieces: Dict[int, Unit] = {}
    for loop in loops_of(graph, units):
        layers = tuple(sorted(i for u in loop for i in units.units[u].layers))
        pieces.update({u: units.units[loop[-1]]._replace(layers=layers) for u in loop})
    return pieces


def in_order(units: UnitGraph, items: Sequence[Tuple[int, ...]]) -> List[Tuple[int, ...]]:
    """The items (each some units) in topological order; otherwise ordered by their last unit."""
    item_of = {u: k for k, members in enumerate(items) for u in members}
    sources: List[Set[int]] = [
        {item_of[p] for u in members for p, _ in units.units[u].inputs} - {k} for k, members in enumerate(items)
    ]
    readers: List[List[int]] = [[] for _ in items]
    for k, feeding in enumerate(sources):
        for p in feeding:
            readers[p].append(k)
    waiting = [len(feeding) for feeding in sources]
    ready = [(items[k][-1], k) for k, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    ordered: List[Tuple[int, ...]] = []
    while ready:
        _, k = heapq.heappop(ready)
        ordered.append(items[k])
        for r in readers[k]:
            waiting[r] -= 1
            if waiting[r] == 0:
                heapq.heappush(ready, (items[r][-1], r))
    if len(ordered) != len(items):
        raise AssertionError(f"{len(items) - len(ordered)} items wait for each other in a circle")
    return ordered


#: Work that starts no kernel of its own in a loop's body: Myelin compiles the body, and joins it to a product or a reduction. On an
#: RTX 4090 two bidirectional LSTM layers over 60 steps take 1 ms (NVIDIA/TensorRT issue 4490): 8 us for the 20 layers of a pass, the
#: time of two or three kernels.
_JOINS = frozenset({"pointwise", "copy", "free"})


def in_all_passes(costs: LayerCosts, graph: LayerGraph, model: CostModel) -> LayerCosts:
    """The costs of one run of the network: a layer in a loop's body costs as often as it runs.

    Predicted costs are of one pass. A profile adds up all passes, so measured costs stay. No published figure of a Jetson holds a
    loop: its costs are guessed.

    Args:
        graph: how often each of its loops runs is known (`require_sizes`).
    """
    runs = {index: n for index, n in graph.runs.items() if n is not None}
    if not runs:
        return costs
    spreads = {"GPU": model.gpu_numbers().guessed_spread}
    if model.platform.has_dla:
        spreads["DLA"] = model.dla_numbers().guessed_spread
    joining = _joining(graph)

    def repeated(cost: Cost, index: int, device: str) -> Cost:
        if index not in runs or cost.basis == "measured":
            return cost
        if device == GPU and index in joining:
            layer = graph.layers[index]
            cost = model.predict(layer, work_of(layer, graph, PRECISION_BYTES[model.precision]), device, fused=True)
        spread = max(cost.spread, spreads[device_kind(device)])
        return replace(cost.scaled(runs[index]), basis="guessed", spread=spread)

    separations: Dict[Tuple[int, int], Mapping[str, Cost]] = {
        link: {device: repeated(cost, link[1], device) for device, cost in by_device.items()}
        for link, by_device in costs.separations.items()
        if link[1] not in joining
    }
    return LayerCosts(
        {(index, device): repeated(cost, index, device) for (index, device), cost in costs.costs.items()},
        separations,
        {(index, kind): moved * runs.get(index, 1) for (index, kind), moved in costs.traffic_bytes.items()},
    )


def of_longer_branches(costs: LayerCosts, skipped: FrozenSet[int]) -> LayerCosts:
    """The costs of a frame that does not run the `skipped` layers, the shorter branch of each condition."""
    if not skipped:
        return costs
    nothing = Cost()
    return LayerCosts(
        {(index, device): nothing if index in skipped else cost for (index, device), cost in costs.costs.items()},
        {link: by_device for link, by_device in costs.separations.items() if skipped.isdisjoint(link)},
        {(index, kind): 0.0 if index in skipped else moved for (index, kind), moved in costs.traffic_bytes.items()},
    )


def times_made(graph: LayerGraph, producer: int) -> int:
    """How often a layer writes its outputs while the network runs once; what a loop passes in is new in each of its passes."""
    layer = graph.layers[producer]
    passes = layer.params.get("trips") if layer.type in LOOP_ENTRIES else 1
    return (graph.runs.get(producer, 1) or 1) * (passes or 1)


def _joining(graph: LayerGraph) -> FrozenSet[int]:
    """The layers in bodies that start no kernel. Where nothing in a body would, its first layer does."""
    joining: Set[int] = set()
    bodies: Dict[FrozenSet[object], List[int]] = {}
    for index in sorted(graph.runs):
        bodies.setdefault(graph.loops_around[index], []).append(index)
    for body in bodies.values():
        joins = [i for i in body if WORK_CLASS.get(graph.layers[i].type, "stream") in _JOINS]
        joining.update(joins if len(joins) < len(body) else joins[1:])
    return frozenset(joining)
