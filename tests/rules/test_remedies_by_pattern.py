"""A remedy belongs to the pattern around a layer: one model's remedies are not those of another."""

from __future__ import annotations

import json
from typing import Any, Sequence, Set, Tuple

import numpy as np
import pytest
from click.testing import CliRunner

from edgedla.cli.explain import explain
from edgedla.importers import load_onnx
from edgedla.rules import load_rules
from edgedla.rules.docs import remedy_entry
from edgedla.rules.remedies import remedies
from edgedla.targets import platform_for
from tests.models import constant, node, ones, onnx_model

MAP = (1, 16, 16, 16)


def model(nodes: Sequence[Any], constants: Sequence[Any] = (), inputs: Sequence[str] = ("x",), dims: Any = MAP) -> Any:
    return onnx_model(nodes, dict.fromkeys(inputs, dims), (nodes[-1].output[0],), constants, name="m")


def padded(mode: str, *behind: Any) -> Any:
    pads = constant("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    return model([node("Relu", "x", "r"), node("Pad", "r pads", "p", mode=mode), *behind], [pads, ones("w", 16, 16, 3, 3)])


def gate(*dims: int, op: str = "Mul") -> Any:
    return model([node("Relu", "x", "r"), node(op, "r c", "y")], [ones("c", *dims)])


CONV = node("Conv", "p w", "y")
RELU = node("Relu", "p", "y")
SHARED = model([node("Mul", "x c", "a"), node("Mul", "a c", "y")], [ones("c", 1, 16, 1, 1)])
TWO = model([node("GlobalAveragePool", "x", "g"), node("Sigmoid", "g", "s"), node("Mul", "x s", "y")])
REPEATED = model([node("Expand", "g shape", "y")], [constant("shape", np.array([1, 16, 8, 8]))], ("g",), dims=(1, 16, 1, 1))
FIRST = model([node("Pad", "x pads", "y", mode="reflect")], [constant("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1]))])
EVERY_SECOND = model(
    [node("Relu", "x", "r"), node("Slice", "r a b c d", "y")],
    [constant(n, np.array([v], np.int32)) for n, v in (("a", 0), ("b", 16), ("c", 2), ("d", 2))],
)
SPLIT = node("Split", "m", "p q", axis=1)
ROWS = node("Split", "m", "p q", axis=2)
SILU = [node("Conv", "x w", "c"), node("Sigmoid", "c", "s"), node("Mul", "c s", "m"), SPLIT]
SUM_OF_TWO = [node("Conv", "x w", "c"), node("Conv", "x w", "d"), node("Add", "c d", "m")]
DEPTHWISE = [node("Conv", "x w", "c"), node("Conv", "c grouped", "m", group=16)]
POOLED = node("MaxPool", "x", "m", kernel_shape=[1, 1])


def cut(*nodes: Any, behind: str = "p q", size: int = 16) -> Any:
    ends = [node("Concat", behind, "y", axis=1)]
    constants = [ones("w", 16, 16, 1, 1), ones("grouped", 16, 1, 1, 1)]
    return model([*nodes, *ends], constants, dims=(1, 16, size, size))


WHOLE = model(
    [node("Relu", "x", "r"), node("Slice", "r a b c", "y")],
    [constant(n, np.array([v], np.int32)) for n, v in (("a", 0), ("b", 16), ("c", 1))],
)
ATTENTION = model([node("MatMul", "x z", "y")], inputs=("x", "z"))
SUM = model([node("ReduceMean", "x", "y", axes=[1])])
MEAN = model([node("ReduceMean", "x", "y", axes=[2, 3])])

#: What, model, layer type, TensorRT, remedies.
CASES: Tuple[Tuple[str, Any, str, str, Set[str]], ...] = (
    ("zeros in front of a convolution", padded("constant", CONV), "SLICE", "8.5.2", {"pad-in-layer"}),
    ("zeros in front of something else", padded("constant", RELU), "SLICE", "8.5.2", set()),
    ("a reflection", padded("reflect", CONV), "SLICE", "8.5.2", {"pad-with-zeros"}),
    ("a repeated edge", padded("edge", CONV), "SLICE", "10.3", {"pad-with-zeros"}),
    ("every second row", EVERY_SECOND, "SLICE", "10.3", {"slice-4d"}),
    ("channels of a convolution", cut(*SILU), "SLICE", "8.4", {"newer-release", "conv-per-part"}),
    ("the same on 10.3", cut(*SILU), "SLICE", "10.3", set()),
    ("many of them on 10.3", cut(*SILU, size=80), "SLICE", "10.3", {"conv-per-part"}),
    ("channels of the input", cut(node("Split", "x", "p q", axis=1)), "SLICE", "8.4", {"newer-release"}),
    ("channels of a pooling", cut(POOLED, SPLIT), "SLICE", "8.4", {"newer-release"}),
    ("channels of a depthwise one", cut(*DEPTHWISE, SPLIT), "SLICE", "8.4", {"newer-release", "conv-per-part"}),
    ("channels of groups", cut(node("Conv", "x grouped", "m", group=16), SPLIT), "SLICE", "8.4", {"newer-release"}),
    ("channels of a sum of two", cut(*SUM_OF_TWO, SPLIT), "SLICE", "8.4", {"newer-release"}),
    ("rows of a convolution", cut(node("Conv", "x w", "m"), ROWS), "SLICE", "8.4", {"newer-release"}),
    ("a slice of everything", WHOLE, "SLICE", "8.4", {"newer-release", "no-whole-slice"}),
    ("channels beside their whole", cut(*SILU, behind="p q m"), "SLICE", "8.4", {"newer-release"}),
    ("an Expand", REPEATED, "SLICE", "8.5.2", {"expand-operand"}),
    ("padding of the input", FIRST, "SLICE", "8.5.2", {"pad-with-zeros", "pad-before-network"}),
    ("unfolded BatchNorm, channels last", gate(16), "ELEMENTWISE", "10.3", {"batch-norm-constants"}),
    ("shared constant", SHARED, "ELEMENTWISE", "8.5.2", {"full-rank-constants", "batch-norm-constants"}),
    ("a mask over height and width", gate(1, 1, 16, 16), "ELEMENTWISE", "10.3", {"whole-constant"}),
    ("two activations", TWO, "ELEMENTWISE", "8.5.2", {"expand-operand"}),
    ("division by a constant", gate(1, 1, 1, 1, op="Div"), "ELEMENTWISE", "8.5.2", {"multiply-by-reciprocal"}),
    ("attention", ATTENTION, "MATRIX_MULTIPLY", "10.3", {"product-on-gpu"}),
    ("mean over channels", SUM, "REDUCE", "10.3", {"reduce-by-layers"}),
    ("mean over height and width", MEAN, "REDUCE", "10.3", {"average-pool"}),
)


@pytest.mark.parametrize(("what", "proto", "kind", "trt", "expected"), CASES, ids=[c[0].replace(" ", "_") for c in CASES])
def test_remedies_of_a_refused_layer_follow_its_pattern(what: str, proto: Any, kind: str, trt: str, expected: Set[str]) -> None:
    platform = platform_for("agx-orin-64gb", trt=trt)
    graph = load_onnx(proto, trt=platform.release.trt)
    verdicts = load_rules().check(graph, platform, "fp16")
    told = {
        fix
        for layer, verdict in zip(graph.layers, verdicts)
        if layer.type == kind
        for finding in (*verdict.findings, *verdict.validation)
        for fix in finding.fixes
    }
    assert told == expected


def test_every_remedy_is_explained_with_the_rules_that_name_it() -> None:
    entries = [remedy_entry(name) for name in remedies()]
    # No rule refuses a layer for it: `quantize` names it for its own step.
    assert [e["id"] for e in entries if not e["rules"]] == ["split-shared-scale"]
    where = {r["id"]: r["where"] for r in remedy_entry("pad-in-layer")["rules"]}
    assert where["SLIC005"] == {"padding": ["zero in front of its layer"]}


def test_explain_takes_the_id_of_a_remedy() -> None:
    shown = CliRunner().invoke(explain, ["pad-in-layer"], standalone_mode=False)
    assert shown.output.startswith("pad-in-layer: Pad in the layer behind\n")
    document = json.loads(CliRunner().invoke(explain, ["average-pool", "--format", "json"], standalone_mode=False).output)
    (entry,) = document["remedies"]
    assert entry["rewrites"] == ["global-average-conv", "global-average-pool"]
