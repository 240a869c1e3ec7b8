"""A small ONNX network for tests of the whole placer: convolutions, a global average pool that the DLA refuses, a head."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.models import node, onnx_model


def small_model(widths: Sequence[int] = (64, 128, 256, 256), size: int = 56, pool: bool = True) -> onnx.ModelProto:
    """Conv + ReLU a width, then GlobalAveragePool (if `pool`) and a 1 x 1 convolution. Weights are zeros."""
    nodes: List[onnx.NodeProto] = []
    weights: List[onnx.TensorProto] = []
    x, before = "image", 3

    def conv(x: str, name: str, out: int, kernel: int) -> str:
        value = np.zeros((out, before, kernel, kernel), np.float32)
        weights.append(numpy_helper.from_array(value, f"{name}.weight"))
        nodes.append(helper.make_node("Conv", [x, f"{name}.weight"], [f"{name}_out"], name, pads=[kernel // 2] * 4))
        return f"{name}_out"

    for i, width in enumerate(widths):
        x = conv(x, f"conv{i}", width, 3)
        nodes.append(helper.make_node("Relu", [x], [f"relu{i}_out"], f"relu{i}"))
        x, before = f"relu{i}_out", width
    out_size = size
    if pool:
        nodes.append(helper.make_node("GlobalAveragePool", [x], ["mean_out"], "mean"))
        x, out_size = "mean_out", 1
    last = conv(x, "head", 16, 1)
    return onnx_model(nodes, {"image": (1, 3, size, size)}, {last: (1, 16, out_size, out_size)}, weights, name="small")


def refused_model() -> onnx.ModelProto:
    """Nothing but an Erf, which no DLA runs."""
    return onnx_model([node("Erf", "x", "y", "erf")], {"x": (1, 3, 8, 8)}, {"y": (1, 3, 8, 8)}, name="refused")
