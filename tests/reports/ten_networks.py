"""Ten small networks of different shapes, for questions that every one of them has to answer."""

from __future__ import annotations

from typing import Callable, Dict, List, Tuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto

from tests.models import constant, ints, node, ones, onnx_model


class _Net:
    """Nodes and constants of a network; each method appends a layer and returns its output's name."""

    def __init__(self) -> None:
        self.nodes: List[NodeProto] = []
        self.constants: List[TensorProto] = []

    def add(self, op: str, inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        made = node(op, inputs, name, name, **attributes)
        # An input that is left out.
        made.input[:] = ["" if read == "-" else read for read in made.input]
        self.nodes.append(made)
        return name

    def conv(self, x: str, c_in: int, c_out: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        weight = f"w{len(self.constants)}"
        self.constants.append(ones(weight, c_out, c_in // group, kernel, kernel))
        return self.add("Conv", f"{x} {weight}", pads=[kernel // 2] * 4, strides=[stride] * 2, group=group)

    def model(self, size: Tuple[int, ...], outputs: Dict[str, Tuple[int, ...]]) -> ModelProto:
        return onnx_model(self.nodes, {"x": size}, outputs, self.constants, opset=14)


def plain(depth: int = 8, width: int = 64, batch: int = 1, refused: str = "") -> ModelProto:
    net, x = _Net(), "x"
    for i in range(depth):
        x = net.add("Relu", net.conv(x, width if i else 3, width))
        x = net.add(refused, x) if refused and i == depth // 2 else x
    return net.model((batch, 3, 56, 56), {x: (batch, width, 56, 56)})


def residual() -> ModelProto:
    net = _Net()
    x = net.add("Relu", net.conv("x", 3, 64, 7, 2))
    for _ in range(4):
        y = net.add("Relu", net.conv(x, 64, 64))
        x = net.add("Relu", f"{net.add('Add', f'{net.conv(y, 64, 64)} {x}')}")
    return net.model((1, 3, 112, 112), {x: (1, 64, 56, 56)})


def depthwise(activation: str = "Relu") -> ModelProto:
    net = _Net()
    x = net.conv("x", 3, 32, 3, 2)
    for _ in range(3):
        x = net.add(activation, net.conv(x, 32, 128, 1))
        x = net.conv(net.add(activation, net.conv(x, 128, 128, 3, 1, 128)), 128, 32, 1)
    return net.model((1, 3, 112, 112), {x: (1, 32, 56, 56)})


def segmentation() -> ModelProto:
    """Two outputs: the mask's scores, and those of a helping head."""
    net = _Net()
    x = net.add("Relu", net.conv("x", 3, 64, 3, 2))
    helping = net.conv(x, 64, 21, 1)
    x = net.add("Relu", net.conv(net.add("Relu", net.conv(x, 64, 128, 3, 2)), 128, 128))
    net.constants.append(constant("scales", np.array([1, 1, 4, 4], np.float32)))
    mask = net.add("Resize", f"{net.conv(x, 128, 21, 1)} - scales", mode="nearest", coordinate_transformation_mode="asymmetric")
    return net.model((1, 3, 128, 128), {mask: (1, 21, 128, 128), helping: (1, 21, 64, 64)})


def classifier() -> ModelProto:
    net = _Net()
    x = net.add("MaxPool", net.add("Relu", net.conv("x", 3, 64, 3, 2)), kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("GlobalAveragePool", net.add("Relu", net.conv(x, 64, 256)))
    net.constants += [ints("flat", 1, 256), ones("fc", 256, 100)]
    y = net.add("Softmax", net.add("MatMul", f"{net.add('Reshape', f'{x} flat')} fc"), axis=1)
    return net.model((1, 3, 64, 64), {y: (1, 100)})


#: Name -> the network.
TEN: Dict[str, Callable[[], ModelProto]] = {
    "plain": plain,
    "wide": lambda: plain(4, 256),
    "deep": lambda: plain(20, 32),
    "batch-2": lambda: plain(4, 64, 2),
    "broken-in-two": lambda: plain(refused="Erf"),
    "residual": residual,
    "depthwise": depthwise,
    "hard-swish": lambda: depthwise("HardSwish"),
    "segmentation": segmentation,
    "classifier": classifier,
}
