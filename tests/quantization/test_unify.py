"""Scales as the DLA needs them: equalities, filled-in scales, and that no missing scale goes unreported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from onnx import helper

from edgedla.errors import RuleError
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.importers.model_file.tensor_types import float_activations
from edgedla.quantization import scale_rules as rules_module
from edgedla.quantization.coverage import coverage
from edgedla.quantization.scale_rules import scale_rules
from edgedla.quantization.unify import Scales, copies, dla_scales
from edgedla.rules.docs import sources
from edgedla.targets import platform_for
from tests.quantization.small_nets import net

ORIN = platform_for("agx-orin-64gb", trt="10.3")


def graph_of(nodes: List[Any], tmp_path: Path, weights: Dict[str, np.ndarray] = {}) -> LayerGraph:  # noqa: B006
    path = tmp_path / "net.onnx"
    onnx.save(net(nodes, weights), str(path))
    return load_onnx(path, trt=(10, 3, 0))


def scales_of(graph: LayerGraph, absmax: Dict[str, float], **more: Any) -> Scales:
    return dla_scales(graph, absmax, more.pop("platform", ORIN), **more)


def test_copies_of_a_tensor_are_recognised(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("GlobalMaxPool", ["x"], ["g"]),
        helper.make_node("Resize", ["g", "", "scales"], ["near"], mode="nearest"),
        helper.make_node("Transpose", ["near"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("Resize", ["g", "", "scales"], ["linear"], mode="linear"),
        helper.make_node("Add", ["t", "linear"], ["y"]),
    ]
    graph = graph_of(nodes, tmp_path, {"scales": np.asarray([1, 1, 4, 4], np.float32)})
    assert copies(graph) == {"near": "g", "t": "g"}


def test_a_pooling_and_a_concatenation_have_one_scale(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Concat", ["p", "r"], ["y"], axis=1),
    ]
    graph = graph_of(nodes, tmp_path)
    found = scales_of(graph, {"x": 2.0, "p": 1.0, "r": 3.0, "y": 1.5})
    # Pooling ties p to x, the concatenation ties p, r and y: all four take the largest.
    assert found.absmax == {"x": 3.0, "p": 3.0, "r": 3.0, "y": 3.0}
    told = {c.tensor: (c.rule, c.before, c.after) for c in found.changes}
    assert told == {"x": ("SCALE001", 2.0, 3.0), "p": ("SCALE001", 1.0, 3.0), "y": ("SCALE002", 1.5, 3.0)}
    assert {c.origin for c in found.changes} == {"unified"}


def test_equal_scales_are_required_on_the_dla_only(tmp_path: Path) -> None:
    graph = graph_of([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], tmp_path)
    assert scales_of(graph, {"x": 2.0, "y": 1.0}, on_dla=lambda index: False).absmax == {"x": 2.0, "y": 1.0}


@pytest.mark.parametrize(("trt", "alike"), [("8.2", True), ("8.5", False), ("10.3", False)])
def test_inputs_of_a_sum_share_a_scale_before_8_4(tmp_path: Path, trt: str, alike: bool) -> None:
    graph = graph_of([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])], tmp_path)
    target = "agx-xavier-32gb" if trt == "8.2" else "agx-orin-64gb"
    found = scales_of(graph, {"x": 2.0, "r": 1.0, "y": 3.0}, platform=platform_for(target, trt=trt))
    assert found.absmax == {"x": 2.0, "r": 2.0 if alike else 1.0, "y": 3.0}


@pytest.mark.parametrize(
    ("nodes", "given", "filled"),
    [
        ([("Relu", ["x"], ["y"])], {"x": 2.0}, {"y": (2.0, "SCALE012")}),
        ([("Sigmoid", ["x"], ["y"])], {"x": 2.0}, {"y": (1.0, "SCALE013")}),
        ([("Sigmoid", ["x"], ["s"]), ("Mul", ["x", "s"], ["y"])], {"x": 2.0, "y": 2.0}, {"s": (1.0, "SCALE013")}),
        ([("Relu", ["x"], ["r"]), ("Mul", ["x", "r"], ["y"])], {"x": 2.0, "r": 3.0}, {"y": (6.0, "SCALE015")}),
        ([("Neg", ["x"], ["r"]), ("Mul", ["x", "r"], ["y"])], {"x": 2.0, "y": 8.0}, {"r": (4.0, "SCALE015")}),
        ([("Transpose", ["x"], ["y"])], {"y": 5.0}, {"x": (5.0, "SCALE010")}),
    ],
)
def test_a_missing_scale_is_derived_from_the_operator(
    tmp_path: Path, nodes: List[Any], given: Dict[str, float], filled: Dict[str, Any]
) -> None:
    graph = graph_of([helper.make_node(*n) for n in nodes], tmp_path)
    found = scales_of(graph, given)
    assert {c.tensor: (c.after, c.rule) for c in found.changes} == filled
    assert {c.origin for c in found.changes} <= {"moved"}
    assert not coverage(graph, found).missing


def test_a_tensor_without_a_scale_is_reported_with_its_layers(tmp_path: Path) -> None:
    graph = graph_of([helper.make_node("Neg", ["x"], ["r"]), helper.make_node("Exp", ["r"], ["y"])], tmp_path)
    found = coverage(graph, scales_of(graph, {"x": 1.0, "y": 2.0}), measured={"r": 0.0})
    assert [(t.tensor, t.origin, t.why) for t in found.missing] == [("r", "missing", "zero in every sample")]
    left_out = coverage(graph, scales_of(graph, {"x": 1.0, "y": 2.0}), measured={"r": 3.0})
    assert [t.why for t in left_out.missing] == ["the given ranges leave it out"]
    assert len(found.layers_without) == 2
    assert found.counts == {"measured": 2, "missing": 1}


@pytest.mark.parametrize(
    "node", [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])]
)
def test_an_input_whose_range_may_be_larger_is_not_filled_from_the_output(tmp_path: Path, node: Any) -> None:
    found = scales_of(graph_of([node], tmp_path), {"y": 2.0})
    assert found.absmax == {"y": 2.0}


def test_every_corpus_network_gets_all_scales(shared: Path) -> None:
    for path in sorted((shared / "corpus/nets").glob("*.onnx")):
        measured = float_activations(onnx.load(str(path), load_external_data=False))
        graph = load_onnx(path, trt=(10, 3, 0))
        found = coverage(graph, scales_of(graph, dict.fromkeys(measured, 1.0)))
        assert found.missing == (), path.name


def test_scale_rules_have_known_sources_and_unique_ids() -> None:
    every = (*scale_rules().equal, *scale_rules().missing)
    assert len({r.id for r in every}) == len(every)
    known = set(sources())
    assert {s for r in every for s in r.sources} <= known


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("tensors: inputs\n", "tensors: outputs\n", "unknown tensors 'outputs'"),
        ("status: disputed", "status: maybe", "unknown status"),
        ("id: SCALE002", "id: SCALE001", "appears twice"),
        ("    bound: 1.0\n", "", "a positive bound"),
        ("from: product", "from: nowhere", "unknown from"),
    ],
)
def test_broken_rules_are_refused_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, why: str
) -> None:
    text = (rules_module.rules_dir() / "int8_scales.yaml").read_text()
    assert old in text
    (tmp_path / "int8_scales.yaml").write_text(text.replace(old, new, 1))
    monkeypatch.setattr(rules_module, "rules_dir", lambda: tmp_path)
    scale_rules.cache_clear()
    try:
        with pytest.raises(RuleError, match=why) as error:
            scale_rules()
        assert "int8_scales.yaml:" in str(error.value)
    finally:
        scale_rules.cache_clear()
