"""Placements without a search: GPU only, TensorRT's greedy fallback, its defaults after the cap, one model per device."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Tuple

from edgedla.placement.problem.evaluate import Region
from edgedla.placement.problem.problem import Item, Problem
from edgedla.vocabulary import GPU

#: Name -> title, in the order of reports.
TITLES: Mapping[str, str] = {
    "own": "your model, before `edgedla fix`, on the GPU",
    "gpu": "everything on the GPU",
    "dla-fallback": "every legal layer on DLA0, the rest falls back to the GPU",
    "tensorrt": "TensorRT's defaults: the same, then only the largest loadables survive the cap",
    "one-per-device": "one model per device: the first on the GPU, the next on DLA0, then DLA1",
}


def baselines(problem: Problem) -> Dict[str, Tuple[str, ...]]:
    """Assignments by name. They keep pins and verdicts, but not always caps and bounds. GPU-only exists without a DLA too."""
    problem = problem.by_default()
    by_name: Dict[str, Tuple[str, ...]] = {}
    if all(GPU in item.allowed for item in problem.items):
        by_name["gpu"] = (GPU,) * len(problem.items)
    if problem.cores:
        core = problem.cores[0]
        by_name["dla-fallback"] = greedy(problem, (core,) * len(problem.models))
        by_name["tensorrt"] = as_tensorrt_places(problem)
        if len(problem.models) > 1 and GPU in problem.devices:
            turn = [problem.devices[m % len(problem.devices)] for m in range(len(problem.models))]
            by_name["one-per-device"] = after_cap(problem, greedy(problem, turn))
    return by_name


def starts(problem: Problem) -> List[Tuple[str, ...]]:
    """Assignments to start a search from: the baselines, also with the loadables beyond the cap on the GPU."""
    assignments = list(baselines(problem).values())
    if problem.cores and problem.defaults is not None:
        assignments.append(as_tensorrt_places(problem))
    return assignments


def as_tensorrt_places(problem: Problem) -> Tuple[str, ...]:
    """All that the first core may run there, after the cap; everything on the GPU where there is no core."""
    device = problem.cores[0] if problem.cores else GPU
    return after_cap(problem, greedy(problem, (device,) * len(problem.models)))


def greedy(problem: Problem, device_of_model: Sequence[str]) -> Tuple[str, ...]:
    """Every item on its model's device if it is allowed there, else on the first device that is allowed."""

    def place(item: Item) -> str:
        device = device_of_model[item.model]
        return device if device in item.allowed else next(iter(item.allowed), GPU)

    return tuple(place(item) for item in problem.items)


def after_cap(problem: Problem, assignment: Tuple[str, ...]) -> Tuple[str, ...]:
    """The assignment after TensorRT's cap: a core keeps its largest loadables, ties in topological order; others go to the GPU.

    A loadable that breaks a size or pool limit falls back too. Loadables with a pinned layer cannot.
    """
    devices = list(assignment)
    limits = problem.limits
    for core in problem.cores:
        loadables = [Region(c, problem.items[g[0]].model, g) for c, g in problem.regions(devices) if c == core]
        ranked = sorted(loadables, key=lambda r: (-size(problem, r.items), r.items))
        cap = min(most for most in (limits.loadables_per_core, limits.max_regions) if most is not None)
        for rank, region in enumerate(ranked):
            weights = sum(problem.items[i].weight_bytes for i in region.items)
            small = size(problem, region.items) < limits.min_region_layers
            if rank >= cap or small or weights > limits.global_dram_bytes:
                for i in region.items:
                    if GPU in problem.items[i].allowed:
                        devices[i] = GPU
    return tuple(devices)


def size(problem: Problem, items: Tuple[int, ...]) -> int:
    """Number of layers as TensorRT counts them, after its fusions."""
    return sum(problem.items[i].units for i in items)
