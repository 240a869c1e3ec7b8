"""If, Loop and Scan: their bodies become layers of the network."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgedla.importers import load_onnx
from tests.importers.onnx_models import VERSIONS, constant, model, types, value


def branches(condition):
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["t"], name="then")], "a", [], [value("t", None)])
    other = helper.make_graph([helper.make_node("Exp", ["x"], ["e"], name="else")], "b", [], [value("e", None)])
    node = helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other)
    inputs = [value("x", [1, 8])]
    initializers = []
    if condition is None:
        inputs.append(value("c", [1], TensorProto.BOOL))
    else:
        initializers.append(constant("c", np.array([condition])))
    return model([node], inputs, ["y"], initializers)


@pytest.mark.parametrize("trt", VERSIONS, ids=str)
@pytest.mark.parametrize(("condition", "kind"), [(True, "ACTIVATION"), (False, "UNARY")])
def test_a_constant_condition_imports_one_branch(condition, kind, trt):
    assert kind in types(branches(condition), trt)
    assert len(types(branches(condition), trt)) <= 2


@pytest.mark.parametrize("trt", VERSIONS, ids=str)
def test_a_runtime_condition_imports_both_branches(trt):
    found = types(branches(None), trt)
    assert {"ACTIVATION", "UNARY", "CONDITION", "CONDITIONAL_OUTPUT"} <= set(found)


def loop(body_nodes):
    body = helper.make_graph(
        body_nodes,
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("v", [1, 8])],
        [value("go_out", [], TensorProto.BOOL), value("v_out", [1, 8])],
    )
    node = helper.make_node("Loop", ["n", "c", "x"], ["y"], name="loop", body=body)
    return model([node], [value("x", [1, 8])], ["y"], [constant("n", np.int64(3)), constant("c", np.array(True))])


BODY = [helper.make_node("Identity", ["go"], ["go_out"]), helper.make_node("Relu", ["v"], ["v_out"], name="inside")]


@pytest.mark.parametrize("trt", VERSIONS, ids=str)
def test_a_loop_keeps_its_body_once(trt):
    found = types(loop(BODY), trt)
    assert found.count("ACTIVATION") == 1
    assert {"RECURRENCE", "LOOP_OUTPUT"} <= set(found)


def test_an_unknown_operator_within_a_body_is_reported():
    body = [BODY[0], helper.make_node("Strange", ["v"], ["v_out"], name="inside", domain="vendor")]
    graph = load_onnx(loop(body))
    assert any("Strange" in n.unknown for n in graph.nodes)
    assert "UNKNOWN" in [layer.type for layer in graph.layers]


def test_scan_becomes_a_loop():
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["s_out"]), helper.make_node("Identity", ["s_out"], ["row"])],
        "body",
        [value("s", [8]), value("e", [8])],
        [value("s_out", [8]), value("row", [8])],
    )
    node = helper.make_node("Scan", ["s0", "x"], ["last", "all"], name="scan", num_scan_inputs=1, body=body)
    proto = model([node], [value("s0", [8]), value("x", [5, 8])], ["last", "all"])
    found = types(proto)
    assert {"ITERATOR", "RECURRENCE", "LOOP_OUTPUT"} <= set(found)
