"""A small network whose exact rewrites, INT8 and approximations are quick to try, and labelled samples for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, save

from tests.models import node, onnx_model


def small_model(last: str = "") -> Any:
    """x (1, 3, 32, 32) -> three convolutions, a residual Add, `last` (an operator) -> y (1, 8, 32, 32)."""
    rng = np.random.default_rng(3)
    weights, nodes, value, channels = {}, [], "x", 3
    for i in range(3):
        weights[f"w{i}"] = (rng.standard_normal((16, channels, 3, 3)) * np.sqrt(2 / channels / 9)).astype(np.float32)
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], name=f"relu{i}"))
        value, channels = f"r{i}", 16
    nodes.append(node("Add", "r1 r2", "s", name="residual"))
    value = "s"
    if last:
        nodes.append(node(last, "s", "t", name="last"))
        value = "t"
    weights["wy"] = (rng.standard_normal((8, 16, 1, 1)) * 0.3).astype(np.float32)
    nodes.append(helper.make_node("Conv", [value, "wy"], ["y"], name="head"))
    return onnx_model(nodes, {"x": (1, 3, 32, 32)}, {"y": (1, 8, 32, 32)}, weights, opset=17, name="small")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    save(small_model(), str(path))
    return path


@pytest.fixture
def hard_swish(tmp_path: Path) -> Path:
    """A network with one operator that an exact rewrite brings to the DLA."""
    path = tmp_path / "swish.onnx"
    save(small_model("HardSwish"), str(path))
    return path


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.random.default_rng(0).standard_normal((15, 3, 32, 32)).astype(np.float32))
    return path
