"""Chains without files: stages of bytes, for the runtime's tests."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Sequence, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact, Binding, Stage

SIZE = 8
#: Inputs and outputs of one stage.
Wires = Tuple[Sequence[str], Sequence[str]]


def binding(name: str, is_input: bool) -> Binding:
    return Binding(name, is_input, (1, SIZE), "INT8", "LINEAR", SIZE, {}, 1.0)


def artifact(inputs: Sequence[str], outputs: Sequence[str], **changes: Any) -> Artifact:
    bindings = tuple(binding(n, True) for n in inputs) + tuple(binding(n, False) for n in outputs)
    fields: Dict[str, Any] = {
        "kind": "hybrid",
        "backend": "tensorrt",
        "simulated": False,
        "model": {"name": "m", "sha256": "ab" * 32},
        "platform": {"chip": "orin"},
        "software": {},
        "precision": "int8",
        "bindings": bindings,
        "placement_predicted": {"layer": "DLA0"},
    }
    return Artifact(**{**fields, **changes})


def chain(
    devices: Sequence[str],
    wires: Sequence[Wires],
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    **changes: Any,
) -> Artifact:
    stages = tuple(Stage(d, artifact(*w)) for d, w in zip(devices, wires))
    return artifact(inputs, outputs, kind="chain", stages=stages, **changes)


def straight(*devices: str) -> Artifact:
    """x -> t1 -> t2 ... -> y."""
    names = ["x", *(f"t{k}" for k in range(1, len(devices))), "y"]
    return chain(devices, [([a], [b]) for a, b in zip(names, names[1:])])


def passing(wires: Wires, change: Callable[[np.ndarray], np.ndarray] = lambda a: a + 1) -> Any:
    """A stage's compute: every output is the changed sum of the inputs."""

    def compute(inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        total = np.zeros(SIZE, np.uint8)
        for name in wires[0]:
            total = total + inputs[name].astype(np.uint8)
        return {name: change(total) for name in wires[1]}

    return compute


def frame(number: int) -> Dict[str, np.ndarray]:
    return {"x": np.full(SIZE, number % 200, np.uint8)}
