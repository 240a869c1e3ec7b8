"""The networks of an acceptance run, made by code: nothing is downloaded, and every board gets the same networks."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A network built node by node; weights are the same in every run."""

    def __init__(self, **inputs: Sequence[int]) -> None:
        self._rng = np.random.default_rng(2026)
        self._inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()]
        self._nodes: List[Any] = []
        self._constants: List[Any] = []

    def constant(self, value: Any) -> str:
        name = f"k{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weights(self, *shape: int) -> str:
        scale = 1.0 / np.sqrt(np.prod(shape[1:]))
        return self.constant((self._rng.standard_normal(shape) * scale).astype(np.float32))

    def add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(op, list(inputs), [output], name=output, **attributes))
        return output

    def conv(self, source: str, output: str, shape: Sequence[int], **attributes: Any) -> str:
        attributes.setdefault("pads", [shape[2] // 2, shape[3] // 2] * 2)
        return self.add("Conv", [source, self.weights(*shape)], output, **attributes)

    def model(self, **outputs: Sequence[int]) -> Any:
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in outputs.items()]
        graph = helper.make_graph(self._nodes, "acceptance", self._inputs, made, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def detector() -> Any:
    """A small detector with two heads, the most common kind of network."""
    net = Net(image=[1, 3, 64, 64])
    x = "image"
    for i, (c_in, c_out) in enumerate(((3, 16), (16, 32), (32, 32))):
        x = net.add("Relu", [net.conv(x, f"conv{i}", [c_out, c_in, 3, 3])], f"relu{i}")
        x = net.add("MaxPool", [x], f"pool{i}", kernel_shape=[2, 2], strides=[2, 2])
    net.conv(x, "scores", [4, 32, 1, 1])
    net.conv(x, "boxes", [16, 32, 1, 1])
    return net.model(scores=[1, 4, 8, 8], boxes=[1, 16, 8, 8])


def many_loadables(count: int = 20) -> Any:
    """Convolutions separated by GPU layers: more loadables than a core allows."""
    net = Net(image=[1, 8, 16, 16])
    x = "image"
    for i in range(count):
        x = net.add("Erf", [net.conv(x, f"conv{i}", [8, 8, 3, 3])], f"erf{i}")
    net.conv(x, "y", [8, 8, 1, 1])
    return net.model(y=[1, 8, 16, 16])


def numerics() -> Any:
    """Distinguishes variants of the arithmetic: long sums, ties, a pooling and a concatenation of different ranges, a gate."""
    net = Net(x=[1, 64, 16, 16])
    net.conv("x", "c", [32, 64, 3, 3])
    net.add("AveragePool", ["c"], "p", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Sigmoid", ["p"], "s")
    net.add("Relu", ["p"], "r")
    net.add("Concat", ["p", "r"], "y", axis=1)
    return net.model(y=[1, 64, 8, 8], s=[1, 32, 8, 8])


#: Transitions to the GPU and back per frame in `crossings`, if its poolings are on the GPU.
CROSSINGS = 4


def crossings() -> Any:
    """Convolutions with a small pooling between each two: with the poolings on the GPU, the extra time is the transitions'."""
    net = Net(x=[1, 32, 28, 28])
    x = net.conv("x", "conv0", [32, 32, 3, 3])
    for i in range(CROSSINGS):
        x = net.conv(
            net.add("MaxPool", [x], f"pool{i}", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            f"conv{i + 1}" if i + 1 < CROSSINGS else "y",
            [32, 32, 3, 3],
        )
    return net.model(y=[1, 32, 28, 28])


def near_sram() -> Any:
    """Tensors of 448 KiB in FP16 between convolutions: two of them fill a core's SRAM."""
    net = Net(x=[1, 64, 56, 64])
    x = "x"
    for i in range(4):
        x = net.add("Relu", [net.conv(x, f"conv{i}", [64, 64, 3, 3])], f"relu{i}" if i < 3 else "y")
    return net.model(y=[1, 64, 56, 64])


#: Network -> tensor -> largest value, if not 1: ranges that the DLA's rules would make equal.
RANGES: Mapping[str, Mapping[str, float]] = {"numerics-int8": {"c": 4.0, "p": 2.0, "r": 1.5, "y": 3.0, "s": 1.0}}


def _conv(c_in: int, c_out: int, kernel: int, size: int, **attributes: Any) -> Callable[[], Any]:
    def make() -> Any:
        net = Net(x=[1, c_in, size, size])
        groups = attributes.get("group", 1)
        pad = attributes.get("dilations", [1])[0] * (kernel // 2)
        net.conv("x", "y", [c_out, c_in // groups, kernel, kernel], pads=[pad] * 4, **attributes)
        stride = attributes.get("strides", [1, 1])[0]
        reach = attributes.get("dilations", [1, 1])[0] * (kernel - 1) + 1
        out = (size + 2 * pad - reach) // stride + 1
        return net.model(y=[1, c_out, out, out])

    return make


def _pool(op: str, window: int, size: int = 32) -> Callable[[], Any]:
    def make() -> Any:
        net = Net(x=[1, 16, size, size])
        net.add(op, ["x"], "y", kernel_shape=[window, window], strides=[window, window])
        return net.model(y=[1, 16, size // window, size // window])

    return make


def _unary(op: str, **attributes: Any) -> Callable[[], Any]:
    def make() -> Any:
        net = Net(x=[1, 16, 16, 16])
        net.add(op, ["x"], "y", **attributes)
        return net.model(y=[1, 16, 16, 16])

    return make


def _binary(op: str, *second: int) -> Callable[[], Any]:
    def make() -> Any:
        net = Net(a=[1, 16, 16, 16], b=list(second))
        net.add(op, ["a", "b"], "y")
        return net.model(y=[1, 16, 16, 16])

    return make


def _concat(axis: int) -> Callable[[], Any]:
    def make() -> Any:
        net = Net(a=[1, 16, 16, 16], b=[1, 16, 16, 16])
        net.add("Concat", ["a", "b"], "y", axis=axis)
        shape = [1, 16, 16, 16]
        shape[axis] *= 2
        return net.model(y=shape)

    return make


def _deconv(kernel: int, stride: int) -> Callable[[], Any]:
    def make() -> Any:
        net = Net(x=[1, 16, 16, 16])
        net.add("ConvTranspose", ["x", net.weights(16, 8, kernel, kernel)], "y", strides=[stride, stride])
        out = 15 * stride + kernel
        return net.model(y=[1, 8, out, out])

    return make


#: Single layers on both sides of the rules' limits. Their expected verdicts come from the rules, not from here.
SINGLE: Mapping[str, Callable[[], Any]] = {
    "conv-k3": _conv(16, 16, 3, 32),
    "conv-k32": _conv(16, 16, 31, 40),
    "conv-k33": _conv(16, 16, 33, 48),
    "conv-stride-8": _conv(16, 16, 3, 64, strides=[8, 8]),
    "conv-stride-9": _conv(16, 16, 3, 64, strides=[9, 9]),
    "conv-dilation-32": _conv(16, 16, 3, 96, dilations=[32, 32]),
    "conv-dilation-33": _conv(16, 16, 3, 96, dilations=[33, 33]),
    "conv-depthwise": _conv(16, 16, 3, 32, group=16),
    "max-pool-8": _pool("MaxPool", 8),
    "max-pool-16": _pool("MaxPool", 16),
    "average-pool-8": _pool("AveragePool", 8),
    "average-pool-16": _pool("AveragePool", 16),
    "relu": _unary("Relu"),
    "sigmoid": _unary("Sigmoid"),
    "tanh": _unary("Tanh"),
    "leaky-relu": _unary("LeakyRelu", alpha=0.1),
    "erf": _unary("Erf"),
    "softmax": _unary("Softmax", axis=1),
    "add": _binary("Add", 1, 16, 16, 16),
    "add-broadcast": _binary("Add", 1, 16, 1, 1),
    "mul": _binary("Mul", 1, 16, 16, 16),
    "div": _binary("Div", 1, 16, 16, 16),
    "max": _binary("Max", 1, 16, 16, 16),
    "concat-channels": _concat(1),
    "concat-height": _concat(2),
    "deconv-k2": _deconv(2, 2),
    "deconv-k33": _deconv(33, 2),
}
#: The ladder of the cost model: the time of one layer of each kind.
LADDER: Mapping[str, Callable[[], Any]] = {
    "conv-64-k1": _conv(64, 64, 1, 56),
    "conv-64-k3": _conv(64, 64, 3, 56),
    "conv-256-k3": _conv(256, 256, 3, 14),
    "conv-512-k1": _conv(512, 512, 1, 7),
    "conv-large": _conv(16, 16, 3, 224),
    "conv-k7-stride-2": _conv(3, 64, 7, 224, strides=[2, 2]),
    "depthwise-64": _conv(64, 64, 3, 56, group=64),
    "max-pool-2": _pool("MaxPool", 2, 224),
    "average-pool-2": _pool("AveragePool", 2, 112),
    "relu": _unary("Relu"),
    "add": _binary("Add", 1, 16, 16, 16),
    "deconv": _deconv(2, 2),
}


def tensors_of(model: Any) -> Dict[str, float]:
    """Each tensor's largest value as a calibration would give it: 1 for most, so that INT8 needs no samples."""
    return {t: 1.0 for t in [*(i.name for i in model.graph.input), *(o for n in model.graph.node for o in n.output)]}
