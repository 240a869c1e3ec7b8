"""Small networks for the tests of this folder: a CNN whose INT8 error is easy to break and to repair."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest
from onnx import helper

from edgedla.quantization.samples import Samples
from tests.models import node, onnx_model


def cnn(seed: int = 0) -> Any:
    """x (1, 3, 16, 16) -> three convolutions with ReLU -> global average -> 10 scores."""
    rng = np.random.default_rng(seed)
    sizes = [(8, 3), (16, 8), (16, 16)]
    nodes, weights, last = [], {}, "x"
    for i, (cout, cin) in enumerate(sizes):
        weights[f"w{i}"] = (rng.standard_normal((cout, cin, 3, 3)) * np.sqrt(2 / (cin * 9))).astype(np.float32)
        weights[f"b{i}"] = (rng.standard_normal(cout) * 0.1).astype(np.float32)
        nodes.append(helper.make_node("Conv", [last, f"w{i}", f"b{i}"], [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], name=f"relu{i}"))
        last = f"r{i}"
    weights["wl"] = (rng.standard_normal((10, 16, 1, 1)) * 0.3).astype(np.float32)
    nodes.append(helper.make_node("AveragePool", [last], ["p"], name="pool", kernel_shape=[4, 4], strides=[4, 4]))
    nodes.append(node("Conv", "p wl", "y", name="last"))
    return onnx_model(nodes, {"x": (1, 3, 16, 16)}, {"y": (1, 10, 4, 4)}, weights, opset=17, name="cnn")


def pictures(count: int, seed: int) -> Samples:
    rng = np.random.default_rng(seed)
    return Samples(
        tuple({"x": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(count)), False, f"{count} tests"
    )


@pytest.fixture(scope="session")
def network() -> Any:
    return cnn()


@pytest.fixture(scope="session")
def data() -> Tuple[Samples, Samples]:
    """(calibration, held out)."""
    return pictures(64, 1), pictures(24, 2)
