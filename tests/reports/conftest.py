"""Check reports made by hand: a small network with one refused, one unknown, one warned and two knock-on layers."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import pytest

from edgedla.graph import Layer, LayerGraph
from edgedla.graph.document import from_document
from edgedla.regions import check_graph
from edgedla.regions.report import CheckReport
from edgedla.rules.verdict import Effect, Finding, Support, Verdict
from edgedla.targets import Platform, platform_for

CHW = [1, 8, 16, 16]
HOSTILE = "</script><b>|`x`\x1b[31m\n"


def _layer(kind: str, name: str, inputs: List[str], output: str, **params: Any) -> Dict[str, Any]:
    def tensor(t: str) -> Dict[str, Any]:
        return {"name": t, "dims": CHW, "dtype": "FLOAT"}

    return {
        "type": kind,
        "name": name,
        "onnx_node": name,
        "onnx_op": kind.title(),
        "inputs": [tensor(t) for t in inputs],
        "outputs": [tensor(output)],
        "params": params,
    }


def network(hostile: bool = False) -> LayerGraph:
    """in -> relu0 -> relu1 -> reduce -> relu2 -> mystery -> sigmoid -> out, and a side path that skips `reduce`."""
    odd = HOSTILE if hostile else "mystery"
    layers = [
        _layer("ACTIVATION", "relu0", ["in"], "a", activation="RELU"),
        _layer("ACTIVATION", "relu1", ["a"], "b", activation="RELU"),
        _layer("REDUCE", "mean", ["b"], "c", op="AVG"),
        _layer("ELEMENTWISE", "add", ["c", "a"], "d", op="SUM"),
        _layer("NON_ZERO", odd, ["d"], "e"),
        _layer("SOFTMAX", "softmax", ["e"], "f"),
    ]
    io = {"dims": CHW, "dtype": "FLOAT"}
    return from_document(
        {
            "model": "small",
            "parsed": True,
            "lowering": "10.3",
            "inputs": [{"name": "in", **io}],
            "outputs": [{"name": "f", **io}],
            "layers": layers,
            "notes": ["weights are missing"],
        }
    )


class HandmadeRules:
    """A RuleSet that refuses the layer `mean`, does not know NON_ZERO, and warns about `softmax`."""

    version = "1"

    def __init__(self, supported: bool) -> None:
        self.supported = supported

    def check(self, graph: LayerGraph, platform: Platform, precision: str, mode: str = "fallback") -> Any:
        return tuple(self._verdict(layer, platform) for layer in graph.layers)

    def check_io(self, *args: Any) -> Any:
        return ()

    def check_loadable(self, weight_bytes: int, internal_bytes: int, platform: Platform, name: str) -> Any:
        if self.supported:
            return ()
        text = f"{name}: {internal_bytes} bytes between its layers, the pool holds 0"
        return (Finding("XMEM002", "local-dram-pool", name, Effect.WARN, text),)

    def _verdict(self, layer: Layer, platform: Platform) -> Verdict:
        support, findings = Support.DLA, []
        if not platform.has_dla:
            support = Support.GPU
        elif not self.supported and layer.name == "mean":
            support = Support.GPU
            findings = [
                Finding(
                    "XRED001",
                    "reduce-avg",
                    layer.name,
                    Effect.REJECT,
                    "AVG over H and W; limit: MAX only",
                    {"op": "AVG"},
                    ("log-10.3-orin",),
                    ("no-such-remedy",),
                )
            ]
        elif not self.supported and layer.type == "NON_ZERO":
            support = Support.UNKNOWN
            findings = [Finding("XGEN001", "no-rule", layer.name, Effect.UNKNOWN, "no rule speaks of NON_ZERO")]
        elif layer.name == "softmax":
            findings = [Finding("XSFT002", "softmax-optimized", layer.name, Effect.WARN, "small error")]
        return Verdict(layer.index, layer.name, support, tuple(findings))


def report(
    target: str = "agx-orin-64gb", mode: str = "fallback", hostile: bool = False, supported: bool = False, **where: str
) -> CheckReport:
    rules: Any = HandmadeRules(supported)
    return check_graph(network(hostile), platform_for(target, **where), "fp16", mode, rules)


@pytest.fixture
def make_report() -> Callable[..., CheckReport]:
    return report
