"""Blocks of YOLO that cut the channels of a convolution."""

from __future__ import annotations

import numpy as np
import onnx

from tests.models import node, onnx_model


def c2f(size: int) -> onnx.ModelProto:
    """Two blocks of YOLO: a convolution is cut in two, a part goes through another one, and both are joined."""
    weights = {"w": np.ones((32, 32, 1, 1), np.float32), "v": np.ones((16, 16, 3, 3), np.float32)}
    nodes = [node("Relu", "x", "a0")]
    for i in (0, 1):
        nodes += [
            node("Conv", f"a{i} w", f"c{i}"),
            node("Sigmoid", f"c{i}", f"s{i}"),
            node("Mul", f"c{i} s{i}", f"m{i}"),
            node("Split", f"m{i}", f"p{i} q{i}", axis=1),
            node("Conv", f"q{i} v", f"d{i}", pads=[1, 1, 1, 1]),
            node("Concat", f"p{i} d{i}", f"a{i + 1}", axis=1),
        ]
    return onnx_model(nodes, {"x": (1, 32, size, size)}, {"a2": (1, 32, size, size)}, weights)
