"""Writes mobilenet_v3_small.onnx: MobileNetV3-small for 1,000 classes, as PyTorch's exporter writes torchvision's.

Layers and sizes are those of table 2 of "Searching for MobileNetV3" (Howard et al., 2019, arXiv 1905.02244). The weights are
random: neither time nor placement depends on them.
"""

from __future__ import annotations

import argparse
from typing import List

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: Per block: kernel, expanded channels, channels out, squeeze-and-excite, activation, stride.
BLOCKS = (
    (3, 16, 16, True, "Relu", 2),
    (3, 72, 24, False, "Relu", 2),
    (3, 88, 24, False, "Relu", 1),
    (5, 96, 40, True, "HardSwish", 2),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 120, 48, True, "HardSwish", 1),
    (5, 144, 48, True, "HardSwish", 1),
    (5, 288, 96, True, "HardSwish", 2),
    (5, 576, 96, True, "HardSwish", 1),
    (5, 576, 96, True, "HardSwish", 1),
)
CLASSES = 1000


class Network:
    """Nodes and weights of an ONNX graph, added in order; each method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: List[onnx.NodeProto] = []
        self.weights: List[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def add(self, op: str, inputs: List[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def weight(self, name: str, shape: List[int]) -> str:
        scale = (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.0
        self.weights.append(numpy_helper.from_array(self.random.normal(0, scale, shape).astype(np.float32), name))
        return name

    def conv(self, x: str, name: str, c_in: int, c_out: int, kernel: int = 1, stride: int = 1, group: int = 1) -> str:
        weights = [self.weight(f"{name}.weight", [c_out, c_in // group, kernel, kernel])]
        weights.append(self.weight(f"{name}.bias", [c_out]))
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        return self.add("Conv", [x, *weights], name, group=group, **sizes)

    def squeeze_excite(self, x: str, name: str, channels: int) -> str:
        # A quarter of the channels, to a multiple of 8 that is at least 90 % of it.
        few = max(8, (channels // 4 + 4) // 8 * 8)
        few += 8 if few < 0.9 * channels / 4 else 0
        y = self.add("GlobalAveragePool", [x], f"{name}/pool")
        y = self.add("Relu", [self.conv(y, f"{name}/reduce", channels, few)], f"{name}/relu")
        y = self.add("HardSigmoid", [self.conv(y, f"{name}/expand", few, channels)], f"{name}/gate", alpha=1 / 6)
        return self.add("Mul", [y, x], f"{name}/scale")

    def block(self, x: str, name: str, c_in: int, row: tuple) -> str:
        kernel, wide, c_out, gated, act, stride = row
        y = x
        if wide != c_in:
            y = self.add(act, [self.conv(y, f"{name}/expand", c_in, wide)], f"{name}/expand/act")
        y = self.conv(y, f"{name}/depthwise", wide, wide, kernel, stride, group=wide)
        y = self.add(act, [y], f"{name}/depthwise/act")
        y = self.squeeze_excite(y, f"{name}/se", wide) if gated else y
        y = self.conv(y, f"{name}/project", wide, c_out)
        return self.add("Add", [y, x], f"{name}/add") if stride == 1 and c_in == c_out else y

    def dense(self, x: str, name: str, c_in: int, c_out: int) -> str:
        weights = [self.weight(f"{name}.weight", [c_out, c_in]), self.weight(f"{name}.bias", [c_out])]
        return self.add("Gemm", [x, *weights], name, transB=1)


def model() -> onnx.ModelProto:
    net = Network()
    x = net.add("HardSwish", [net.conv("image", "stem", 3, 16, 3, 2)], "stem/act")
    channels = 16
    for number, row in enumerate(BLOCKS):
        x = net.block(x, f"block{number}", channels, row)
        channels = row[2]
    x = net.add("HardSwish", [net.conv(x, "last", channels, 576)], "last/act")
    x = net.add("Flatten", [net.add("GlobalAveragePool", [x], "pool")], "flatten", axis=1)
    x = net.add("HardSwish", [net.dense(x, "dense", 576, 1024)], "dense/act")
    net.dense(x, "scores", 1024, CLASSES)
    graph = helper.make_graph(
        net.nodes,
        "mobilenet_v3_small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])],
        [helper.make_tensor_value_info("scores_out", TensorProto.FLOAT, [1, CLASSES])],
        net.weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes MobileNetV3-small as PyTorch exports it, with random weights.")
    parser.add_argument("file", nargs="?", default="mobilenet_v3_small.onnx")
    onnx.save(model(), parser.parse_args().file)
