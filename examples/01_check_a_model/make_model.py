"""Writes street.onnx: a ResNet-like detector with the things that commonly keep a model off the DLA.

A residual backbone (which the DLA runs), one squeeze-and-excite block whose global average pool it refuses, and two
detection heads that are flattened and joined, as exporters write them. The weights are random: `edgedla check` does not
look at them.
"""

from __future__ import annotations

import sys
from typing import List

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTHS = (32, 64, 128, 256)
CLASSES = 8


class Network:
    """Nodes and weights of an ONNX graph, added in order; each method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: List[onnx.NodeProto] = []
        self.weights: List[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def add(self, op: str, inputs: List[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def constant(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def conv(self, x: str, name: str, channels_in: int, channels_out: int, kernel: int = 3, stride: int = 1) -> str:
        scale = (channels_in * kernel * kernel) ** -0.5
        weight = self.random.normal(0, scale, (channels_out, channels_in, kernel, kernel)).astype(np.float32)
        inputs = [x, self.constant(f"{name}.weight", weight)]
        inputs.append(self.constant(f"{name}.bias", np.zeros(channels_out, np.float32)))
        pad = kernel // 2
        return self.add("Conv", inputs, name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def block(self, x: str, name: str, channels_in: int, channels_out: int, stride: int) -> str:
        y = self.conv(x, f"{name}/conv1", channels_in, channels_out, 3, stride)
        y = self.add("Relu", [y], f"{name}/relu1")
        y = self.conv(y, f"{name}/conv2", channels_out, channels_out)
        if stride != 1 or channels_in != channels_out:
            x = self.conv(x, f"{name}/shortcut", channels_in, channels_out, 1, stride)
        return self.add("Relu", [self.add("Add", [x, y], f"{name}/add")], f"{name}/relu2")

    def squeeze_excite(self, x: str, name: str, channels: int) -> str:
        y = self.add("GlobalAveragePool", [x], f"{name}/pool")
        y = self.add("Relu", [self.conv(y, f"{name}/down", channels, channels // 8, 1)], f"{name}/relu")
        y = self.add("Sigmoid", [self.conv(y, f"{name}/up", channels // 8, channels, 1)], f"{name}/gate")
        return self.add("Mul", [x, y], f"{name}/scale")

    def head(self, x: str, name: str, channels: int) -> str:
        y = self.conv(x, f"{name}/predict", channels, 4 + CLASSES, 1)
        shape = self.constant(f"{name}.shape", np.array([1, 4 + CLASSES, -1], np.int64))
        return self.add("Reshape", [y, shape], f"{name}/flatten")


def model() -> onnx.ModelProto:
    net = Network()
    x = net.add("Relu", [net.conv("image", "stem", 3, WIDTHS[0], 7, 2)], "stem/relu")
    x = net.add("MaxPool", [x], "stem/pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    levels = []
    for i, width in enumerate(WIDTHS):
        before = WIDTHS[max(i - 1, 0)]
        x = net.block(x, f"stage{i}/block0", before, width, 1 if i == 0 else 2)
        x = net.block(x, f"stage{i}/block1", width, width, 1)
        if i == 2:
            x = net.squeeze_excite(x, "attention", width)
        levels.append((x, width))
    heads = [net.head(x, f"head{i}", width) for i, (x, width) in enumerate(levels[2:])]
    net.add("Sigmoid", [net.add("Concat", heads, "join", axis=2)], "scores")
    graph = helper.make_graph(
        net.nodes,
        "street",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 320, 320])],
        [helper.make_tensor_value_info("scores_out", TensorProto.FLOAT, [1, 4 + CLASSES, 500])],
        net.weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


if __name__ == "__main__":
    onnx.save(model(), sys.argv[1] if len(sys.argv) > 1 else "street.onnx")
