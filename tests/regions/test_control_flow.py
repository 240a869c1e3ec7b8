"""Loops and conditions: a loop's RECURRENCE reads what a later layer writes, and no source puts a body on the DLA."""

from __future__ import annotations

from typing import Any, List

import pytest

import edgedla
from edgedla.regions import CheckReport, Placed
from edgedla.rules.verdict import Support

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

SHAPE = [1, 8, 4, 4]


def checked(nodes: List[Any], inputs: List[Any], initializers: List[Any], trt: str) -> CheckReport:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None)], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return edgedla.check(model.SerializeToString(), target="orin", trt=trt)


@pytest.mark.parametrize("trt", ["8.6.2", "10.3"])
def test_a_loop_is_on_the_gpu_and_its_neighbours_on_the_dla(trt: str) -> None:
    report = checked(
        [
            helper.make_node("Relu", ["x"], ["a"], name="before"),
            helper.make_node("CumSum", ["a", "axis"], ["b"], name="sum"),
            helper.make_node("Relu", ["b"], ["y"], name="after"),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor("axis", TensorProto.INT32, [], [1])],
        trt,
    )
    body = [layer for layer in report.layers if any(f.rule == "GEN006" for f in layer.findings)]
    assert [layer.type for layer in body] == ["ELEMENTWISE"]
    assert (body[0].support, body[0].placed) == (Support.UNKNOWN, Placed.GPU)
    assert all(layer.placed is Placed.GPU for layer in report.layers if layer.type in ("RECURRENCE", "LOOP_OUTPUT"))
    assert {layer.name: layer.placed for layer in report.layers if layer.type == "ACTIVATION"} == {
        "before": Placed.DLA,
        "after": Placed.DLA,
    }


@pytest.mark.parametrize("trt", ["8.6.2", "10.3"])
def test_a_conditional_is_unknown_and_the_layer_before_it_on_the_dla(trt: str) -> None:
    result = [helper.make_tensor_value_info("r", TensorProto.FLOAT, SHAPE)]
    branches = [
        helper.make_graph([helper.make_node(op, ["a"], ["r"], name=op)], op, [], result) for op in ("Relu", "Abs")
    ]
    report = checked(
        [
            helper.make_node("Sigmoid", ["x"], ["a"], name="before"),
            helper.make_node("If", ["c"], ["b"], name="if", then_branch=branches[0], else_branch=branches[1]),
            helper.make_node("Tanh", ["b"], ["y"], name="after"),
        ],
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        [],
        trt,
    )
    support = {layer.name: layer.support for layer in report.layers}
    assert (support["before"], support["after"]) == (Support.DLA, Support.DLA)
    assert (support["Relu"], support["Abs"]) == (Support.UNKNOWN, Support.UNKNOWN)
