"""Inputs and outputs get the requested names, also in subgraphs; no-op nodes are removed; results stay equal."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import onnx
import pytest
from onnx import helper

from edgedla.importers.model_file.port_names import name_ports, without_identities
from tests.models import node, ones, onnx_model

DIMS = (1, 3, 4, 4)


def outputs_of(model: onnx.ModelProto, **feed: np.ndarray) -> Dict[str, np.ndarray]:
    ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    onnx.checker.check_model(model)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, feed)))


def values(dims: Any = DIMS) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(dims).astype(np.float32)


def test_renaming_ports_moves_inner_values_of_the_same_name() -> None:
    nodes = [node("Conv", "1 output", "image"), node("Relu", "image", "7"), node("Neg", "7", "8")]
    model = onnx_model(nodes, {"1": DIMS}, {"7": DIMS, "8": DIMS}, [ones("output", 3, 3, 1, 1)], opset=17)
    before = outputs_of(model, **{"1": values()})
    name_ports(model, {"1": "image"}, ["output", "output"])
    after = outputs_of(model, image=values())
    assert list(after) == ["output", "output_1"]
    assert all(np.array_equal(a, b) for a, b in zip(before.values(), after.values()))
    assert [i.name for i in model.graph.initializer] == ["output_2"]


def test_an_input_returned_as_output_and_a_repeated_output_get_own_names() -> None:
    model = onnx_model([node("Neg", "x", "y")], {"x": DIMS}, {"x": DIMS, "y": DIMS}, opset=17)
    model.graph.output.add().CopyFrom(model.graph.output[1])
    name_ports(model, {}, ["same", "first", "second"])
    after = outputs_of(model, x=values())
    assert list(after) == ["same", "first", "second"]
    assert np.array_equal(after["same"], values())
    assert np.array_equal(after["second"], -values())


def test_names_of_another_count_than_the_outputs_are_ignored() -> None:
    model = onnx_model([node("Neg", "x", "y")], opset=17)
    name_ports(model, {"z": "a"}, ["first", "second"])
    assert [v.name for v in (*model.graph.input, *model.graph.output)] == ["x", "y"]


def branching() -> onnx.ModelProto:
    """An If whose branches read values of the graph around them, which Identities hand on."""
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(op, "handed", f"{name}_out")],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", onnx.TensorProto.FLOAT, DIMS)],
        )
        for name, op in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [
        node("Identity", "x", "i"),
        node("Relu", "i", "r"),
        node("Identity", "r", "handed"),
        node("ReduceSum", "handed", "sum", keepdims=0),
        node("Cast", "sum", "which", to=onnx.TensorProto.BOOL),
        node("If", "which", "made", **branches),
        node("Identity", "made", "y"),
    ]
    return onnx_model(nodes, {"x": DIMS}, {"y": DIMS}, opset=17)


def test_renaming_ports_follows_into_subgraphs() -> None:
    model = branching()
    before = outputs_of(model, x=values())
    without_identities(model)
    name_ports(model, {"x": "image"}, ["scores"])
    after = outputs_of(model, image=values())
    assert not [n for n in model.graph.node if n.op_type == "Identity"]
    assert np.array_equal(before["y"], after["scores"])


def test_an_identity_between_ports_or_before_two_outputs_stays() -> None:
    nodes = [node("Identity", "x", "y"), node("Relu", "x", "r"), node("Identity", "r", "a"), node("Identity", "r", "b")]
    model = onnx_model(nodes, {"x": DIMS}, {"y": DIMS, "a": DIMS, "b": DIMS}, opset=17)
    before = outputs_of(model, x=values())
    without_identities(model)
    assert [n.op_type for n in model.graph.node] == ["Identity", "Relu", "Identity"]
    after = outputs_of(model, x=values())
    assert all(np.array_equal(before[name], after[name]) for name in ("y", "a", "b"))
