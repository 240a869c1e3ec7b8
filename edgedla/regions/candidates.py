"""The DLA's candidate subgraphs as TensorRT forms them, and the cuts of its second look.

How the groups come about, as far as logs show it (no document states it). TensorRT walks the network from its outputs to
its inputs. It takes all DLA layers whose readers are done into one group, then passes all GPU layers whose readers are
done, then begins the next group. So groups are convex, and members need not be connected. All members of a group share
one effective batch: a ready layer of another batch waits for a later group (FP16), or forms its own at once (INT8).

Where this was measured: DETR on AGX Orin, TensorRT 10.3: 162 candidates in FP16 and 179 in INT8, both exactly; in
FP16 the v projection waits for q and k of its block, in INT8 it stands alone. YOLO11 on Xavier, TensorRT 8.5.2: the
six subgraphs of the log; `{Split_20...Transpose_1}` and the single `{/model.10/Split}` only arise when walking
backwards. The difference between FP16 and INT8 rests on DETR alone.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.regions.fusions import UnitGraph, fuse
from edgedla.regions.values import Cut, Region
from edgedla.targets import Platform


def candidates(
    graph: LayerGraph, on_dla: Sequence[bool], platform: Platform, precision: str = "fp16", validation: Mapping[int, str] = {}
) -> Tuple[Region, ...]:
    """The candidate subgraphs that TensorRT makes of a set of DLA layers, in topological order, before the cap.

    Args:
        graph: the network.
        on_dla: for each layer of `graph`, whether it is to run on the DLA.
        platform: module and release; without a DLA there are no candidates.
        precision: "fp16" or "int8".
        validation: layer index -> message, for layers that pass the first check and fail inside a candidate. TensorRT
            removes them, which splits the candidate.
    """
    if not platform.has_dla:
        return ()
    units = fuse(graph)
    devices = unit_devices(units, on_dla)
    failing = failing_units(units, devices, validation)
    return describe(graph, units, form_groups(units, devices, precision), failing)


def unit_devices(units: UnitGraph, on_dla: Sequence[bool]) -> List[bool]:
    """For each unit whether the DLA runs it: if it runs all its layers, and no reshape of a transform is merged into it."""
    devices = [not unit.reshape_of for unit in units.units]
    for layer, unit in units.unit_of.items():
        if not on_dla[layer]:
            devices[unit] = False
    return devices


def failing_units(units: UnitGraph, devices: Sequence[bool], validation: Mapping[int, str]) -> Dict[int, str]:
    """Unit index -> message, for DLA units that the second look removes; `validation` is by layer.

    The second look comes after the fusions: it sees the convolution that a MATRIX_MULTIPLY became, but not the bias in it.
    """
    failing: Dict[int, str] = {}
    for layer in sorted(validation):
        unit = units.unit_of.get(layer)
        if unit is not None and devices[unit]:
            fused = units.units[unit]
            if fused.is_shuffle or fused.layers[0] == layer:
                failing.setdefault(unit, validation[layer])
    return failing


def form_groups(units: UnitGraph, on_dla: Sequence[bool], precision: str = "fp16") -> List[List[int]]:
    """Groups of unit indices in topological order. Linear in edges, times the logarithm of the ready units.

    Between two groups an FP16 build takes the GPU layers that are ready, an INT8 build goes on with the next batch (DETR on
    10.3 shows both).
    """
    waits_for_batch = precision != "int8"
    batches, predecessors = units.batches, units.predecessors
    open_readers = [len(s) for s in units.successors]
    ready_gpu: List[int] = []
    #: Ready DLA units by batch, last in the network first; no batch without one.
    ready_dla: Dict[int, List[int]] = {}

    def ready(unit: int) -> None:
        if on_dla[unit]:
            heappush(ready_dla.setdefault(batches[unit], []), -unit)
        else:
            ready_gpu.append(unit)

    def done(unit: int) -> None:
        for p in predecessors[unit]:
            open_readers[p] -= 1
            if not open_readers[p]:
                ready(p)

    for i, readers in enumerate(open_readers):
        if not readers:
            ready(i)
    groups: List[List[int]] = []
    while ready_dla or ready_gpu:
        while ready_dla:
            batch = min(ready_dla, key=lambda b: ready_dla[b][0])
            group: List[int] = []
            while ready_dla[batch]:
                group.append(-heappop(ready_dla[batch]))
                done(group[-1])
            del ready_dla[batch]
            groups.append(sorted(group))
            if waits_for_batch and ready_gpu:
                break
        while ready_gpu:
            done(ready_gpu.pop())
    groups.reverse()
    return groups


def split_groups(groups: Sequence[Sequence[int]], failing: Mapping[int, str]) -> List[List[int]]:
    """`Splitting DLA subgraph at: X`: splits each group into its units before X and those after it."""
    result: List[List[int]] = []
    for group in groups:
        part: List[int] = []
        for unit in group:
            if unit in failing:
                if part:
                    result.append(part)
                part = []
            else:
                part.append(unit)
        if part:
            result.append(part)
    return result


def describe(
    graph: LayerGraph, units: UnitGraph, formed: Sequence[Sequence[int]], failing: Mapping[int, str]
) -> Tuple[Region, ...]:
    """The regions that remain of the groups after the second look, each with the cuts at its borders."""
    groups = split_groups(formed, failing)
    group_of = {u: g for g, group in enumerate(groups) for u in group}
    candidate_of = {u: n for n, candidate in enumerate(formed) for u in candidate}

    def splitting(u: int, v: int) -> Optional[int]:
        """The first failing unit that split the candidate between units u and v; None if none did."""
        if v in failing or candidate_of.get(u) != candidate_of.get(v):
            return None
        inside = formed[candidate_of[u]]
        return next((x for x in inside if x in failing and min(u, v) < x < max(u, v)), None)

    return tuple(
        Region(
            id=g,
            layers=tuple(sorted(i for u in group for i in units.units[u].layers)),
            batch=units.units[group[0]].batch,
            size=len(group),
            cuts=_cuts(graph, units, g, group, group_of, failing, splitting),
        )
        for g, group in enumerate(groups)
    )


def _cuts(
    graph: LayerGraph,
    units: UnitGraph,
    g: int,
    group: Sequence[int],
    group_of: Mapping[int, int],
    failing: Mapping[int, str],
    splitting: Callable[[int, int], Optional[int]],
) -> Tuple[Cut, ...]:
    cuts: Dict[Tuple[str, int], Cut] = {}
    for u in group:
        for neighbour in units.predecessors[u] + units.successors[u]:
            if group_of.get(neighbour) == g:
                continue
            split_at = splitting(u, neighbour)
            v = neighbour if split_at is None else split_at
            other = units.units[v]
            layer = other.layers[0] if other.layers else other.reshape_of[0]
            name = graph.layers[layer].name
            if v in failing:
                cut = Cut("validation", layer, f"ends at {name}: {failing[v]}")
            elif v not in group_of:
                what = name if other.layers else f"the reshape beside {name}"
                cut = Cut("gpu_layer", layer, f"ends at {what}, which runs on the GPU")
            elif other.batch != units.units[u].batch:
                cut = Cut(
                    "batch",
                    layer,
                    f"cannot join {name}: its batch is {other.batch}, the batch of this group is {units.units[u].batch}",
                )
            else:
                cut = Cut("path", layer, f"cannot join {name}: a GPU layer lies between them (cycle)")
            cuts.setdefault((cut.kind, layer), cut)
    return tuple(cuts[key] for key in sorted(cuts))
