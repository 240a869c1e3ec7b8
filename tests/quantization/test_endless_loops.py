"""Endless loops are refused before ONNX Runtime runs them; loops that may end are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgedla.errors import ModelError
from edgedla.quantization.endless_loops import MOST_ROUNDS, endless_loop
from edgedla.quantization.session import open_session
from tests.models import node, onnx_model, value


def loop(rounds: str, condition: str, after: Any) -> Any:
    """A model with one Loop; `after`: the body's node that makes the next condition."""
    body = helper.make_graph(
        [after, node("Relu", "a", "b")],
        "body",
        [value("i", (), TensorProto.INT64), value("given", (), TensorProto.BOOL), value("a", (1, 3, 8, 8))],
        [value("next", (), TensorProto.BOOL), value("b", (1, 3, 8, 8))],
    )
    constants = {"three": np.array(3), "huge": np.array(2**62), "true": np.array(True), "false": np.array(False)}
    inputs = {"x": (1, 3, 8, 8)}
    return onnx_model(
        [
            node("ReduceMax", "x", "top", keepdims=0),
            node("Cast", "top", "worked_out", to=TensorProto.INT64),
            node("Cast", "top", "depends", to=TensorProto.BOOL),
            node("Identity", "true", "also_true"),
            helper.make_node("Loop", [rounds, condition, "x"], ["y"], name="lp", body=body),
        ],
        inputs,
        constants=constants,
    )


PASSED_ON = node("Identity", "given", "next")
ALWAYS = helper.make_node("Constant", [], ["next"], value=helper.make_tensor("", TensorProto.BOOL, [], [True]))
WORKED_OUT = node("Cast", "i", "next", to=TensorProto.BOOL)


@pytest.mark.parametrize(
    ("rounds", "condition", "after"),
    [("", "true", PASSED_ON), ("", "", PASSED_ON), ("huge", "also_true", PASSED_ON)]
    + [("huge", "", ALWAYS), ("", "true", ALWAYS), ("", "true", node("Identity", "true", "next"))],
)
def test_an_endless_loop_is_refused(rounds: str, condition: str, after: Any) -> None:
    model = loop(rounds, condition, after)
    assert endless_loop(model.graph) == "lp"
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    with pytest.raises(ModelError, match="the loop 'lp' never ends"):
        open_session(model.SerializeToString())


@pytest.mark.parametrize(
    ("rounds", "condition", "after"),
    [
        ("three", "true", PASSED_ON),
        ("worked_out", "", PASSED_ON),
        ("", "false", PASSED_ON),
        ("", "depends", PASSED_ON),
        ("huge", "true", WORKED_OUT),
    ],
)
def test_a_loop_that_may_end_is_accepted(rounds: str, condition: str, after: Any) -> None:
    assert endless_loop(loop(rounds, condition, after).graph) is None


def test_loops_in_branches_count_and_names_inside_hide_those_outside() -> None:
    inner = loop("", "true", PASSED_ON).graph
    inner.ClearField("input")
    branch = onnx_model([helper.make_node("If", ["c"], ["z"], name="if", then_branch=inner, else_branch=inner)])
    assert endless_loop(branch.graph) == "lp"
    hidden = loop("huge", "true", PASSED_ON).graph
    hidden.input.append(value("huge", (), TensorProto.INT64))
    del hidden.initializer[:]
    assert endless_loop(hidden) is None
    assert MOST_ROUNDS > 1_000_000


@pytest.mark.parametrize("missing", ["body", "inputs", "outputs"])
def test_a_loop_whose_body_is_damaged_is_left_to_onnx_runtime(missing: str) -> None:
    """It names what is wrong; only a loop that it would run is refused here."""
    model = loop("", "", PASSED_ON)
    node = next(n for n in model.graph.node if n.op_type == "Loop")
    body = node.attribute[0].g
    if missing == "body":
        del node.attribute[:]
    elif missing == "inputs":
        del body.input[1:]
    else:
        del body.output[:]
    assert endless_loop(model.graph) is None


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_a_convolution_whose_window_is_empty_is_refused(operator: str) -> None:
    """ONNX Runtime never returned from it, which `deploy` met in its proof of a converted model."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    shape = (8, 3, 0, 0) if operator == "Conv" else (3, 8, 0, 0)
    model = onnx_model(
        [node(operator, "x w", "y", name="c")], {"x": (1, 3, 8, 8)}, {"y": None}, {"w": np.zeros(shape, np.float32)}
    )
    with pytest.raises(ModelError, match="the convolution 'c' has a window without elements"):
        open_session(model.SerializeToString())
