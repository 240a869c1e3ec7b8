"""Tensors of more than 2^31 - 1 elements: older parsers refuse the model, of later releases GEN008 says what is known."""

from __future__ import annotations

import pytest

import edgedla
from edgedla.errors import ModelRefused
from edgedla.rules.verdict import Support
from tests.models import node, onnx_model

#: 2^31 elements, and one row of pixels less.
LARGE, SMALLER = (1, 32, 8192, 8192), (1, 32, 8192, 8191)


def pooled(dims: tuple) -> bytes:
    nodes = [node("Relu", "x", "r", name="relu"), node("MaxPool", "r", "y", name="pool", kernel_shape=[2, 2], strides=[2, 2])]
    return bytes(onnx_model(nodes, {"x": dims}, {"y": (*dims[:2], 4096, dims[3] // 2)}).SerializeToString())


@pytest.mark.parametrize("trt", ["8.5.2", "8.6", "10.0"])
def test_parsers_before_10_1_refuse_the_model(trt: str) -> None:
    with pytest.raises(ModelRefused, match=r"x: tensor volume exceeds \(2\^31\)-1, dimensions are \[1,32,8192,8192\]"):
        edgedla.load_onnx(pooled(LARGE), trt=trt)
    assert edgedla.load_onnx(pooled(SMALLER), trt=trt).layers


def test_a_tensor_in_the_network_counts_as_its_input_does() -> None:
    nodes = [node("Concat", "x x", "c", axis=1), node("MaxPool", "c", "y", kernel_shape=[2, 2], strides=[2, 2])]
    model = onnx_model(nodes, {"x": (1, 16, 8192, 8192)}, {"y": (1, 32, 4096, 4096)})
    with pytest.raises(ModelRefused, match=r"c: tensor volume exceeds .*\n?.*8\.6"):
        edgedla.load_onnx(model, trt="8.6")


def test_later_releases_refuse_or_leave_it_open() -> None:
    report = edgedla.check(pooled(LARGE), target="orin", trt="10.3")
    assert [layer.support for layer in report.layers] == [Support.GPU, Support.GPU]
    assert all("GEN008" in {f.rule for f in layer.findings} for layer in report.layers)
    assert any("TensorRT may not build this network, on the GPU alone either" in note for note in report.notes)
    assert not any("2^31" in note for note in edgedla.check(pooled(SMALLER), target="orin", trt="10.3").notes)
