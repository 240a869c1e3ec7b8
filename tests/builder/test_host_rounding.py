"""Rounding nodes of the simulation: an adjustable scale in either form, as branches and with both sides computed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgedla.builder.host import rounding
from edgedla.builder.host.rounding import Rounding, scale_input, switch_input
from edgedla.quantization.session import open_session

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
BRANCHES = rounding._runs_branches()


@pytest.mark.parametrize(
    "branches",
    [False, pytest.param(True, marks=pytest.mark.skipif(not BRANCHES, reason="this ONNX Runtime ends the process at them"))],
)
@pytest.mark.parametrize("shape", [[5], [1, 5, 1, 1]])
def test_an_adjustable_tensor_rounds_half_away_if_switched_on(
    monkeypatch: pytest.MonkeyPatch, branches: bool, shape: list
) -> None:
    monkeypatch.setattr(rounding, "_runs_branches", lambda: branches)
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name in "xy"]
    model = helper.make_model(helper.make_graph([], "net", *ports), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    nodes = Rounding(model, {}, half_even=False, adjustable=True)
    nodes.add("x", "y", "x", "int8")
    model.graph.node.extend(nodes.nodes)
    model.graph.initializer.extend(nodes.constants.values())
    assert {n.op_type for n in nodes.nodes} >= ({"If"} if branches else {"Where"})
    session = open_session(model.SerializeToString())
    x = np.array([0.25, -0.75, 0.2, 100, -100], np.float32).reshape(shape)
    feed = {"x": x, scale_input(nodes.prefix, "x"): np.array(0.5, np.float32)}
    (off,) = session.run(None, {**feed, switch_input(nodes.prefix, "x"): np.array(False)})
    (on,) = session.run(None, {**feed, switch_input(nodes.prefix, "x"): np.array(True)})
    assert np.array_equal(off, x)
    assert on.reshape(-1).tolist() == [0.5, -1.0, 0.0, 63.5, -64.0]
