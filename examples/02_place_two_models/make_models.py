"""Writes detector.onnx and plates.onnx: two networks that a camera runs on every frame, for `edgedla place`.

The detector is a residual network at 512 x 512; the reader of number plates a plain one at 96 x 320 that ends in a global
average pool and a softmax, which the DLA does not run. The weights are zeros: `edgedla place` does not look at them.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Nodes and weights of an ONNX graph, added in order; each method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: List[onnx.NodeProto] = []
        self.weights: List[onnx.TensorProto] = []

    def add(self, op: str, inputs: Sequence[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def conv(self, x: str, name: str, channels: Tuple[int, int], kernel: int = 3, stride: int = 1) -> str:
        weight = np.zeros((channels[1], channels[0], kernel, kernel), np.float32)
        self.weights.append(numpy_helper.from_array(weight, f"{name}.weight"))
        pads = [kernel // 2] * 4
        return self.add("Conv", [x, f"{name}.weight"], name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)

    def conv_relu(self, x: str, name: str, channels: Tuple[int, int], kernel: int = 3, stride: int = 1) -> str:
        return self.add("Relu", [self.conv(x, name, channels, kernel, stride)], f"{name}/relu")

    def save(self, name: str, in_chw: Tuple[int, int, int], output: str, out_chw: Tuple[int, int, int]) -> None:
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, *in_chw])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [1, *out_chw])],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        onnx.save(made, f"{name}.onnx")


def detector() -> None:
    net = Network()
    x = net.conv_relu("image", "stem", (3, 64), 7, 2)
    x = net.add("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    before = 64
    for stage, width in enumerate((64, 128, 256)):
        for block in range(3):
            name = f"stage{stage}/block{block}"
            stride = 2 if block == 0 and stage else 1
            y = net.conv(net.conv_relu(x, f"{name}/conv1", (before, width), 3, stride), f"{name}/conv2", (width, width))
            if before != width:
                x = net.conv(x, f"{name}/shortcut", (before, width), 1, stride)
            x = net.add("Relu", [net.add("Add", [x, y], f"{name}/add")], f"{name}/relu")
            before = width
    net.save("detector", (3, 512, 512), net.conv(x, "boxes", (256, 24), 1), (24, 32, 32))


def plates() -> None:
    net = Network()
    x, before = "image", 3
    for i, (width, stride) in enumerate(((64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (256, 1), (256, 1))):
        x = net.conv_relu(x, f"conv{i}", (before, width), 3, stride)
        before = width
    x = net.conv(x, "letters", (256, 40), 1)
    x = net.add("GlobalAveragePool", [x], "mean")
    net.save("plates", (3, 96, 320), net.add("Softmax", [x], "softmax", axis=1), (40, 1, 1))


if __name__ == "__main__":
    detector()
    plates()
