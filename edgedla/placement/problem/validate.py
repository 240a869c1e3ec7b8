"""Checks every hard constraint of a placement, without any solver. Each broken one is a Violation with its rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from edgedla.costs.cost import device_kind
from edgedla.placement.problem.evaluate import Region
from edgedla.placement.problem.grouping import is_acyclic
from edgedla.placement.problem.problem import Problem
from edgedla.text.printable import Fields
from edgedla.vocabulary import DEVICES, GPU

#: Rule -> what it demands, in the order of the checks.
RULES: Dict[str, str] = {
    "each-layer-once": "every layer is placed on exactly one device, and in exactly one region if that is a DLA core",
    "device": "only devices that were allowed are used",
    "dla-verdict": "a layer is placed on a DLA core only with a DLA verdict; UNKNOWN goes to the GPU unless asked for",
    "pin": "a pinned layer is placed where the pin says",
    "format": "every tensor that crosses a border has a format that both sides read",
    "one-model": "a region holds layers of one model, all on its core",
    "batch": "all layers of a region have the same effective batch",
    "convex": "no path leaves a region and comes back, and regions wait for each other in no circle",
    "loadable-cap": "a core holds at most so many loadables",
    "max-regions": "there are at most so many regions",
    "min-region": "a region has at least so many layers",
    "memory-pool": "a region's weights and intermediate tensors fit the DLA memory pools",
    "regroup": "the regions are those that TensorRT forms by itself of the layers on each core",
}


@dataclass(frozen=True)
class Violation(Fields):
    """One broken constraint.

    Attributes:
        rule: a key of RULES.
        message: one sentence with the value found and the limit.
        items: indices of the items that break it.
    """

    rule: str
    message: str
    items: Tuple[int, ...] = ()


def validate(problem: Problem, assignment: Sequence[str], regions: Sequence[Region]) -> Tuple[Violation, ...]:
    """All broken constraints of an assignment (a device per item) with its stated regions; () for a legal placement."""
    if len(assignment) != len(problem.items):
        text = f"{len(assignment)} devices are given for {len(problem.items)} layers"
        return (Violation("each-layer-once", text),)
    violations = _devices(problem, assignment)
    structural = _membership(problem, assignment, regions)
    violations += structural
    violations += _formats(problem, assignment)
    if not structural:
        violations += _shapes(problem, assignment, regions)
        violations += limits_broken(problem, regions)
    if not violations:
        formed = set(problem.regions(assignment))
        claimed = {(r.core, tuple(sorted(r.items))) for r in regions}
        for core, group in sorted(claimed - formed):
            first = problem.items[group[0]].name
            text = f"TensorRT would not form the region of {len(group)} layers that starts at {first} on {core}"
            violations.append(Violation("regroup", text, group))
    order = list(RULES)
    return tuple(sorted(violations, key=lambda v: (order.index(v.rule), v.items, v.message)))


def limits_broken(problem: Problem, regions: Sequence[Region]) -> List[Violation]:
    """Broken caps, sizes and pools, which depend only on the regions. Solvers call it with the regions that TensorRT forms."""
    limits = problem.limits
    violations: List[Violation] = []
    for core in sorted({r.core for r in regions}):
        on_core = [r for r in regions if r.core == core]
        if len(on_core) > limits.loadables_per_core:
            text = f"{core} would hold {len(on_core)} loadables, limit {limits.loadables_per_core}"
            violations.append(Violation("loadable-cap", text, tuple(r.items[0] for r in on_core)))
    if limits.max_regions is not None and len(regions) > limits.max_regions:
        violations.append(Violation("max-regions", f"{len(regions)} regions, limit {limits.max_regions}"))
    for r in regions:
        first = problem.items[r.items[0]].name
        size = sum(problem.items[i].units for i in r.items)
        if size < limits.min_region_layers:
            text = f"the region at {first} has {size} layers, at least {limits.min_region_layers} are asked for"
            violations.append(Violation("min-region", text, r.items))
        weights = sum(problem.items[i].weight_bytes for i in r.items)
        if weights > limits.global_dram_bytes:
            text = f"the region at {first} has {weights} bytes of weights, dlaGlobalDRAM is {limits.global_dram_bytes}"
            violations.append(Violation("memory-pool", text, r.items))
        # Which intermediates are alive together is unknown; but no single tensor may exceed the pool.
        largest = max(problem.items[i].activation_bytes for i in r.items)
        if largest > limits.local_dram_bytes:
            text = f"a tensor in the region at {first} has {largest} bytes, dlaLocalDRAM is {limits.local_dram_bytes}"
            violations.append(Violation("memory-pool", text, r.items))
    return violations


def _devices(problem: Problem, assignment: Sequence[str]) -> List[Violation]:
    violations = []
    for i, (item, device) in enumerate(zip(problem.items, assignment)):
        if device not in problem.devices:
            text = f"{item.name} is placed on {device}, allowed: {', '.join(problem.devices)}"
            violations.append(Violation("device", text, (i,)))
        elif device != GPU and not item.legal:
            text = f"{item.name} is placed on {device} without a DLA verdict"
            violations.append(Violation("dla-verdict", text, (i,)))
        elif device not in item.allowed:
            text = f"{item.name} is placed on {device}, allowed for it: {', '.join(item.allowed)}"
            violations.append(Violation("pin", text, (i,)))
    return violations


def _membership(problem: Problem, assignment: Sequence[str], regions: Sequence[Region]) -> List[Violation]:
    violations = []
    times = [0] * len(problem.items)
    for r in regions:
        if not r.items or any(not 0 <= i < len(problem.items) for i in r.items):
            return [Violation("each-layer-once", f"a region on {r.core} is empty or names layers that do not exist")]
        for i in r.items:
            times[i] += 1
            if assignment[i] != r.core or problem.items[i].model != r.model:
                text = f"{problem.items[i].name} is named in a region on {r.core}, but is placed on {assignment[i]}"
                violations.append(Violation("one-model", text, (i,)))
    for i, (item, device) in enumerate(zip(problem.items, assignment)):
        expected = 0 if device == GPU else 1
        if times[i] != expected:
            text = f"{item.name} on {device} is in {times[i]} regions, not in {expected}"
            violations.append(Violation("each-layer-once", text, (i,)))
    return violations


def _formats(problem: Problem, assignment: Sequence[str]) -> List[Violation]:
    violations = []
    for flow in problem.flows:
        source = GPU if flow.producer is None else assignment[flow.producer]
        targets = {assignment[c] for c in flow.consumers} | ({GPU} if flow.is_output else set())
        for target in sorted(targets - {source}):
            if {source, target} <= {*DEVICES} and (device_kind(source), device_kind(target)) not in flow.costs:
                at = () if flow.producer is None else (flow.producer,)
                text = f"{flow.name} cannot go from {source} to {target}: no format that both read"
                violations.append(Violation("format", text, at))
    return violations


def _shapes(problem: Problem, assignment: Sequence[str], regions: Sequence[Region]) -> List[Violation]:
    violations = []
    for r in regions:
        batches = sorted({problem.items[i].batch for i in r.items})
        if len(batches) > 1:
            text = f"the region at {problem.items[r.items[0]].name} mixes batches {', '.join(map(str, batches))}"
            violations.append(Violation("batch", text, tuple(r.items)))
    edges = _edges(problem)
    bad = []
    for r in regions:
        if not is_acyclic(edges, _joined(problem, [r])):
            bad.append(r)
            text = f"a path leaves the region at {problem.items[r.items[0]].name} and comes back"
            violations.append(Violation("convex", text, tuple(r.items)))
    if not bad and wait_in_circle(problem, regions):
        violations.append(Violation("convex", "regions wait for each other in a circle"))
    return violations


def wait_in_circle(problem: Problem, regions: Sequence[Region]) -> bool:
    """Whether regions, each convex, need each other's outputs to start, so that no order can run them."""
    edges, group = _edges(problem), _joined(problem, regions)
    # In most placements regions only hand on to later ones.
    return any(group[p] > group[i] for p, i in edges) and not is_acyclic(edges, group)


def _edges(problem: Problem) -> List[Tuple[int, int]]:
    return [(p, i) for i in range(len(problem.items)) for p in problem.predecessors(i)]


def _joined(problem: Problem, regions: Sequence[Region]) -> Dict[int, int]:
    """By item the first one of its region, or itself."""
    return {**{i: i for i in range(len(problem.items))}, **{i: k for r in regions for k in [min(r.items)] for i in r.items}}
