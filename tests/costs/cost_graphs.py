"""Small graphs for the tests of the cost model."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from edgedla.graph import Layer, LayerGraph, Tensor


class Builder:
    """Adds layers one after the other; every method returns the name of the output tensor."""

    def __init__(self, dims: Tuple[int, ...] = (1, 64, 56, 56)) -> None:
        self.layers: List[Layer] = []
        self.tensors: Dict[str, Tensor] = {"in": Tensor("in", dims)}

    def add(self, kind: str, inputs: Sequence[str], dims: Tuple[int, ...], name: str = "", **params: object) -> str:
        index = len(self.layers)
        out = f"t{index}"
        self.tensors[out] = Tensor(out, dims)
        name = name or f"{kind.lower()}{index}"
        self.layers.append(Layer(index, kind, name, f"node_{name}", kind, tuple(inputs), (out,), params))
        return out

    def conv(self, x: str, channels: int, kernel: int = 3, stride: int = 1, groups: int = 1, name: str = "") -> str:
        n, _, h, w = self.tensors[x].dims
        pad = kernel // 2
        size = tuple((s + 2 * pad - kernel) // stride + 1 for s in (h, w))
        return self.add(
            "CONVOLUTION",
            [x],
            (n, channels, *size),
            name,
            nb_output_maps=channels,
            kernel=[kernel] * 2,
            stride=[stride] * 2,
            dilation=[1, 1],
            pre_padding=[pad] * 2,
            post_padding=[pad] * 2,
            groups=groups,
        )

    def relu(self, x: str, name: str = "") -> str:
        return self.add("ACTIVATION", [x], self.tensors[x].dims, name, op="RELU")

    def plus(self, a: str, b: str, name: str = "") -> str:
        return self.add("ELEMENTWISE", [a, b], self.tensors[a].dims, name, op="SUM")

    def graph(self, *outputs: str) -> LayerGraph:
        return LayerGraph("net", tuple(self.layers), self.tensors, ("in",), outputs or (f"t{len(self.layers) - 1}",))


def residual_block(dims: Tuple[int, ...] = (1, 64, 56, 56), channels: int = 64) -> LayerGraph:
    """relu, conv, scale, relu, conv, add with the block's input, relu."""
    b = Builder(dims)
    first = b.relu(b.conv("in", channels, name="conv0"))
    x = b.conv(first, channels, name="conv1")
    x = b.add("SCALE", [x], b.tensors[x].dims, "bn1", mode="CHANNEL")
    x = b.conv(b.relu(x, "relu1"), channels, name="conv2")
    return b.graph(b.relu(b.plus(x, first, "add"), "relu2"))
