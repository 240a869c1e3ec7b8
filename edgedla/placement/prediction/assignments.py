"""Assignments as users give them: everything on one device, TensorRT's default, pins, a placement file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union

from edgedla.errors import DocumentError, UsageError
from edgedla.placement.problem.baselines import after_cap, greedy
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.pins import check_pins, parse_pins, pins_by_name, resolve_pins
from edgedla.placement.problem.problem import Problem
from edgedla.placement.result.document import check_input_sizes, read_placement
from edgedla.placement.result.placement import Placement
from edgedla.vocabulary import GPU

#: What `predict(devices=...)` takes for one model.
Assignment = Union[str, Path, Placement, Mapping[str, str]]

#: Names that `devices_of_model` gives to assignments layer by layer.
SAID_BY_LAYER = ("pins", "placement")

ALLOWED = "GPU, DLA0, DLA1, tensorrt, a placement file, or pins such as conv1:DLA0,*:GPU"


def each_model(devices: Union[Assignment, Sequence[Assignment]], count: int) -> Tuple[Assignment, ...]:
    """One assignment per model; a single one is for all.

    Raises:
        UsageError: another number of assignments than models.
    """
    if isinstance(devices, (str, os.PathLike, Placement, Mapping)):
        return (devices,) * count
    several = tuple(devices)
    if len(several) != count:
        raise UsageError(
            f"{len(several)} assignments for {count} models", where="devices", allowed="one for all, or one per model"
        )
    return several


def opened(assignment: Assignment) -> Assignment:
    """The placement if the assignment is a file; else the assignment unchanged.

    Raises:
        DocumentError: the placement cannot be read.
    """
    in_file = isinstance(assignment, Path) or (isinstance(assignment, str) and _is_file(assignment))
    return read_placement(Path(str(assignment))) if in_file else assignment


def devices_of_model(
    problem: Problem, m: int, model: Model, assignment: Assignment, use_unknown: bool = False
) -> Tuple[str, Tuple[str, ...]]:
    """(the assignment in words, device by item of model m).

    Layers without a DLA verdict fall back to the GPU, as in a build with `--allowGPUFallback`, and a core keeps the
    loadables that TensorRT's cap leaves it.

    Raises:
        UsageError: an unknown word, a device that the module does not have, a pin that a rule forbids.
        DocumentError: the placement cannot be read, or is for another model.
    """
    if isinstance(assignment, str) and ":" not in assignment and not _is_file(assignment):
        name = assignment.strip()
        device = name.upper()
        if device in ("TENSORRT", "DLA"):
            device = problem.cores[0] if problem.cores else GPU
        if device not in problem.devices:
            raise UsageError(
                f"{name!r} cannot be used here", where="devices", allowed=", ".join((*problem.devices, ALLOWED.split(", ", 3)[3]))
            )
        return (name if name == "tensorrt" else device), _filled(problem, m, device)
    if isinstance(assignment, Mapping) or (isinstance(assignment, str) and not _is_file(assignment)):
        pins = tuple(assignment.items()) if isinstance(assignment, Mapping) else parse_pins((str(assignment),), where="devices")
        return "pins", _pinned(problem, m, model, [(n, d.upper()) for n, d in pins], use_unknown)
    placement = opened(assignment)
    assert isinstance(placement, Placement)
    return "placement", _placed(problem, m, model, placement)


def _filled(problem: Problem, m: int, device: str) -> Tuple[str, ...]:
    problem = problem.by_default()
    items_of_model = set(problem.items_of(m))
    whole = greedy(problem, tuple(device if k == m else GPU for k in range(len(problem.models))))
    settled = after_cap(problem, tuple(d if i in items_of_model else GPU for i, d in enumerate(whole)))
    return tuple(settled[i] for i in sorted(items_of_model))


def _pinned(problem: Problem, m: int, model: Model, pins: Sequence[Tuple[str, str]], use_unknown: bool) -> Tuple[str, ...]:
    resolved_pins = resolve_pins(model.graph, pins, where="devices")
    exact = pins_by_name(model.graph, pins)
    settled = check_pins(
        Model(model.graph, model.verdicts, resolved_pins, model.rate),
        problem.devices,
        use_unknown,
        {i: i not in exact for i in resolved_pins},
        "devices",
    )
    core = next((d for d in settled.values() if d in problem.cores), problem.cores[0] if problem.cores else GPU)
    devices: List[str] = []
    for i in problem.items_of(m):
        item = problem.items[i]
        pin = next((settled[layer] for layer in item.layers if layer in settled), core)
        device = core if pin == "DLA" else pin
        devices.append(device if device in item.allowed else GPU)
    return tuple(devices)


def _placed(problem: Problem, m: int, model: Model, placement: Placement) -> Tuple[str, ...]:
    names = [layer.name for layer in model.graph.layers]
    match = [x for x in placement.models if [y.name for y in x.layers] == names]
    if not match:
        raise DocumentError(
            f"the placement holds no model with the layers of {model.graph.name}",
            allowed=", ".join(x.name for x in placement.models),
            hint="Place the model again.",
        )
    same_file = [x for x in match if x.sha256 == model.graph.sha256] or match
    placed = next((x for x in same_file if x.name == model.graph.name), same_file[0])
    check_input_sizes(placed, model.graph)
    device_of: Dict[int, str] = {x.index: x.device for x in placed.layers}
    devices: List[str] = []
    for i in problem.items_of(m):
        item = problem.items[i]
        devices.append(device_of[item.layers[0]] if item.layers else GPU)
    return tuple(devices)


def _is_file(text: Any) -> bool:
    return str(text).endswith(".json") or os.path.isfile(str(text))
