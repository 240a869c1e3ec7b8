"""FLOAT16 models as FLOAT ones with every rounding in them, for ONNX Runtime's CPU, which leaves it out between nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgedla.quantization.rounded_half import quantize_in_float, rounded_half
from edgedla.quantization.session import open_session
from tests.models import constant

TYPES = {np.float16: TensorProto.FLOAT16, np.float32: TensorProto.FLOAT}


def net(ends: Any, factor: float) -> onnx.ModelProto:
    """(x * factor) * 3 + 1 in FLOAT16, with Casts around it where the ends are FLOAT."""
    x, y = ("x", "y") if ends is np.float16 else ("xh", "yh")
    nodes = [helper.make_node("Mul", [x, "f"], ["a"]), helper.make_node("Mul", ["a", "t"], ["b"])]
    nodes.append(helper.make_node("Add", ["b", "o"], [y]))
    if ends is np.float32:
        nodes.insert(0, helper.make_node("Cast", ["x"], ["xh"], to=TensorProto.FLOAT16))
        nodes.append(helper.make_node("Cast", ["yh"], ["y"], to=TensorProto.FLOAT))
    constants = [constant(n, np.float16(v)) for n, v in (("f", factor), ("t", 3.0), ("o", 1.0))]
    values = [helper.make_tensor_value_info(n, TYPES[ends], [64]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("ends", [np.float16, np.float32])
def test_every_value_is_rounded(ends: Any) -> None:
    x = np.random.default_rng(0).standard_normal(64).astype(ends)
    half = x.astype(np.float16)
    expected = (half * np.float16(0.7)) * np.float16(3.0) + np.float16(1.0)
    model = rounded_half(net(ends, 0.7))
    onnx.checker.check_model(model, full_check=True)
    found = open_session(model.SerializeToString()).run(["y"], {"x": x})[0]
    assert found.dtype == ends
    np.testing.assert_array_equal(found, expected.astype(ends))


def test_what_float16_does_not_hold_becomes_infinite() -> None:
    x = np.full(64, 300.0, np.float32)
    found = open_session(rounded_half(net(np.float32, 300.0)).SerializeToString()).run(["y"], {"x": x})[0]
    assert np.isinf(found).all()


def test_a_model_without_float16_stays_as_it_is() -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("x", "y")]
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", values[:1], values[1:]))
    assert rounded_half(model) is model


def test_levels_of_float16_are_rounded_not_truncated() -> None:
    """ONNX Runtime 1.23 truncates: half a level of error at each tensor, 6 dB of noise."""
    constants = [constant("s", np.float16(0.5)), constant("z", np.int8(0))]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [6]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    x = np.array([0.2, 0.3, -0.3, 0.7, 0.8, 99.0], np.float16)
    found = open_session(model.SerializeToString()).run(["y"], {"x": x})[0]
    np.testing.assert_array_equal(found, np.array([0.0, 0.5, -0.5, 0.5, 1.0, 63.5], np.float16))
    assert found.dtype == np.float16
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    assert quantize_in_float(changed)
    onnx.checker.check_model(changed, full_check=True)
    assert not quantize_in_float(changed)
