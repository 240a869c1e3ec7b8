"""A short way to write TensorRT networks for region tests."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import pytest

from edgedla.graph import LayerGraph
from edgedla.graph.document import from_document
from edgedla.rules.verdict import Effect, Finding, Support, Verdict
from edgedla.targets import Platform, platform_for

#: (type, name, inputs, output dims, params). An input is a layer's name, "x" (the network) or "=DIMS" (a constant).
Line = Tuple[str, str, Sequence[str], Sequence[int], Dict[str, Any]]


def make_graph(lines: Sequence[Line], x: Sequence[int] = (1, 64, 56, 56), outputs: Sequence[str] = ()) -> LayerGraph:
    """A LayerGraph of the lines; every layer is named after its ONNX node. Outputs default to what nobody reads."""
    dims: Dict[str, Sequence[int]] = {"x": x}
    layers: List[Dict[str, Any]] = []
    read = set()
    for type_, name, inputs, out, params in lines:
        tensors = []
        for i, source in enumerate(inputs):
            if source.startswith("="):
                shape = [int(d) for d in source[1:].split("x") if d]
                tensors.append({"name": f"{name}.{i}", "dims": shape, "dtype": "FLOAT"})
            else:
                read.add(source)
                tensors.append({"name": source, "dims": list(dims[source]), "dtype": "FLOAT"})
        dims[name] = out
        written = {"name": name, "dims": list(out), "dtype": "FLOAT"}
        layers.append(
            {
                "type": type_,
                "name": name,
                "onnx_node": params.get("node", name),
                "onnx_op": params.get("onnx_op", type_),
                "inputs": tensors,
                "outputs": [written],
                "params": {k: v for k, v in params.items() if k not in ("node", "onnx_op")},
            }
        )
    ends = outputs or [name for _, name, _, _, _ in lines if name not in read]
    return from_document(
        {
            "model": "net",
            "parsed": True,
            "inputs": [{"name": "x", "dims": list(x), "dtype": "FLOAT"}],
            "outputs": [{"name": name, "dims": list(dims[name]), "dtype": "FLOAT"} for name in ends],
            "layers": layers,
        }
    )


@pytest.fixture
def net() -> Callable[..., LayerGraph]:
    return make_graph


def make_verdicts(
    graph: LayerGraph, gpu: Mapping[str, str] = {}, unknown: Mapping[str, str] = {}, validation: Mapping[str, str] = {}
) -> Tuple[Verdict, ...]:
    """A verdict a layer: on the DLA unless a mapping from layer name to message says otherwise."""

    def finding(layer: str, effect: Effect, message: str) -> Finding:
        return Finding("T001", "test-rule", layer, effect, message, fixes=("fix-it",))

    result = []
    for layer in graph.layers:
        support, findings = Support.DLA, ()
        if layer.name in gpu:
            support, findings = Support.GPU, (finding(layer.name, Effect.REJECT, gpu[layer.name]),)
        elif layer.name in unknown:
            support, findings = Support.UNKNOWN, (finding(layer.name, Effect.UNKNOWN, unknown[layer.name]),)
        second = (finding(layer.name, Effect.REJECT, validation[layer.name]),) if layer.name in validation else ()
        result.append(Verdict(layer.index, layer.name, support, findings, "rules", second))
    return tuple(result)


@pytest.fixture
def judge() -> Callable[..., Tuple[Verdict, ...]]:
    return make_verdicts


@pytest.fixture
def orin() -> Platform:
    return platform_for("agx-orin-64gb", trt="10.3")


@pytest.fixture
def xavier() -> Platform:
    return platform_for("agx-xavier-32gb", trt="8.5.2")
