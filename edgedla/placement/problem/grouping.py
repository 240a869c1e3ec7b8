"""Which loadables TensorRT forms of the items on one core, from the units of each model."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Set, Tuple

from edgedla.placement.problem.problem import Grouping, Problem
from edgedla.regions.candidates import form_groups, split_groups
from edgedla.regions.fusions import UnitGraph


def tensorrt_grouping(units: Sequence[UnitGraph], items: Sequence[Sequence[int]], precision: str) -> Grouping:
    """The grouping of a problem whose items consist of units of these graphs.

    Every core has its own engine: items on the other core count as outside, like those on the GPU. TensorRT walks from the
    outputs, so units whose only readers are in their own item get into the same group as those readers.

    Args:
        units: by model.
        items: by item, its units.
    """

    def group(problem: Problem, core: str, members: Tuple[int, ...]) -> Tuple[Tuple[int, ...], ...]:
        graph = units[problem.items[members[0]].model]
        item_of = {u: i for i in members for u in items[i]}
        formed = form_groups(graph, [u in item_of for u in range(len(graph.units))], precision)
        return tuple(sorted(tuple(sorted({item_of[u] for u in g})) for g in formed))

    return group


def default_grouping(
    units: Sequence[UnitGraph], items: Sequence[Sequence[int]], failing: Sequence[Mapping[int, str]], precision: str
) -> Grouping:
    """The grouping if TensorRT itself chooses the layers of the core, as `check` predicts.

    Units that fail the second look are in a candidate first, and split it; in an engine of a placement they are on the GPU
    from the start. Units that the cap drops were in candidates too.

    Args:
        failing: by model, unit -> message, for units that the second look removes.
    """

    def group(problem: Problem, core: str, members: Tuple[int, ...]) -> Tuple[Tuple[int, ...], ...]:
        model = problem.items[members[0]].model
        graph, thrown_out = units[model], failing[model]
        item_of = {u: i for i in problem.items_of(model) if core in problem.items[i].allowed for u in items[i]}
        formed = form_groups(graph, [u in item_of or u in thrown_out for u in range(len(graph.units))], precision)
        # A split operator counts to its last unit.
        part_of = {item_of[u]: n for n, part in enumerate(split_groups(formed, thrown_out)) for u in part}
        parts: Dict[int, List[int]] = {}
        for i in members:
            parts.setdefault(part_of[i], []).append(i)
        return tuple(sorted(tuple(part) for part in parts.values()))

    return group


def is_acyclic(edges: Sequence[Tuple[int, int]], group: Dict[int, int]) -> bool:
    """True when the graph whose nodes are the values of `group` has no cycle."""
    successors: Dict[int, Set[int]] = {}
    degree: Dict[int, int] = {g: 0 for g in group.values()}
    for a, b in edges:
        ga, gb = group[a], group[b]
        if ga != gb and gb not in successors.setdefault(ga, set()):
            successors[ga].add(gb)
            degree[gb] += 1
    ready = [g for g, d in degree.items() if d == 0]
    visited = 0
    while ready:
        g = ready.pop()
        visited += 1
        for s in successors.get(g, ()):
            degree[s] -= 1
            if degree[s] == 0:
                ready.append(s)
    return visited == len(degree)
