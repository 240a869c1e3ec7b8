"""YOLOX as layers, from its published architecture (Ge et al. 2021, "YOLOX: Exceeding YOLO Series in 2021", Apache-2.0)."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from edgedla.graph import Layer, LayerGraph, Tensor

#: Variant -> (depth multiple, width multiple, depthwise convolutions).
VARIANTS: Dict[str, Tuple[float, float, bool]] = {
    "n": (0.33, 0.25, True),
    "t": (0.33, 0.375, False),
    "s": (0.33, 0.5, False),
    "m": (0.67, 0.75, False),
}


def yolox(variant: str, size: int) -> LayerGraph:
    """The network for images of size x size: costs depend on types and dims, so it holds no weights and no decoding."""
    depth, width, depthwise = VARIANTS[variant]
    net = _Net(size, depthwise)
    base, n = int(width * 64), max(round(depth * 3), 1)
    x = net.conv(net.focus(), base, 3)
    x = net.csp(net.conv3(x, base * 2, 2), base * 2, n, True)
    c3 = net.csp(net.conv3(x, base * 4, 2), base * 4, n * 3, True)
    c4 = net.csp(net.conv3(c3, base * 8, 2), base * 8, n * 3, True)
    x = net.spp(net.conv3(c4, base * 16, 2), base * 16)
    c5 = net.csp(x, base * 16, n, False)
    n = round(3 * depth)
    p5 = net.conv(c5, base * 8, 1)
    p4 = net.conv(net.csp(net.join([net.up(p5), c4]), base * 8, n, False), base * 4, 1)
    out3 = net.csp(net.join([net.up(p4), c3]), base * 4, n, False)
    out4 = net.csp(net.join([net.conv3(out3, base * 4, 2), p4]), base * 8, n, False)
    out5 = net.csp(net.join([net.conv3(out4, base * 8, 2), p5]), base * 16, n, False)
    return net.graph([net.head(x, base * 4) for x in (out3, out4, out5)], f"yolox_{variant}_{size}")


def same_padded(channels: int, kernel: int, stride: int, groups: int) -> Dict[str, object]:
    """Parameters of a convolution whose output has the input's size over the stride."""
    padding = {"pre_padding": [kernel // 2] * 2, "post_padding": [kernel // 2] * 2, "padding_mode": "EXPLICIT_ROUND_DOWN"}
    sizes = {"nb_output_maps": channels, "kernel": [kernel] * 2, "stride": [stride] * 2, "dilation": [1, 1], "groups": groups}
    return {**sizes, **padding}


class _Net:
    """Adds layers; every method returns the name of its output."""

    def __init__(self, size: int, depthwise: bool) -> None:
        self.depthwise = depthwise
        self.layers: List[Layer] = []
        self.tensors: Dict[str, Tensor] = {"@0": Tensor("@0", (1, 3, size, size))}

    def add(self, kind: str, inputs: Sequence[str], chw: Tuple[int, int, int], **params: object) -> str:
        index = len(self.layers)
        name = str(index)
        self.tensors[name] = Tensor(name, (1, *chw))
        self.layers.append(Layer(index, kind, f"{kind} {index}", "", "", tuple(inputs), (name,), params))
        return name

    def bare(self, x: str, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        _, h, w = self.tensors[x].chw
        return self.add("CONVOLUTION", [x], (channels, h // stride, w // stride), **same_padded(channels, kernel, stride, groups))

    def silu(self, x: str) -> str:
        chw = self.tensors[x].chw
        return self.add("ELEMENTWISE", [x, self.add("ACTIVATION", [x], chw, op="SIGMOID")], chw, op="PROD")

    def conv(self, x: str, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        return self.silu(self.bare(x, channels, kernel, stride, groups))

    def conv3(self, x: str, channels: int, stride: int = 1) -> str:
        if not self.depthwise:
            return self.conv(x, channels, 3, stride)
        before = self.tensors[x].chw[0]
        return self.conv(self.conv(x, before, 3, stride, groups=before), channels, 1)

    def join(self, parts: Sequence[str]) -> str:
        _, h, w = self.tensors[parts[0]].chw
        return self.add("CONCATENATION", parts, (sum(self.tensors[p].chw[0] for p in parts), h, w), axis=1)

    def up(self, x: str) -> str:
        c, h, w = self.tensors[x].chw
        return self.add("RESIZE", [x], (c, 2 * h, 2 * w), mode="NEAREST")

    def focus(self) -> str:
        c, h, w = self.tensors["@0"].chw
        halves = [self.add("SLICE", ["@0"], (c, h // 2, w), mode="STRICT_BOUNDS") for _ in range(2)]
        quarters = [self.add("SLICE", [p], (c, h // 2, w // 2), mode="STRICT_BOUNDS") for p in halves for _ in range(2)]
        return self.join(quarters)

    def csp(self, x: str, channels: int, blocks: int, shortcut: bool) -> str:
        inside = channels // 2
        main, side = self.conv(x, inside, 1), self.conv(x, inside, 1)
        for _ in range(blocks):
            y = self.conv3(self.conv(main, inside, 1), inside)
            main = self.add("ELEMENTWISE", [y, main], self.tensors[y].chw, op="SUM") if shortcut else y
        return self.conv(self.join([main, side]), channels, 1)

    def spp(self, x: str, channels: int) -> str:
        x = self.conv(x, channels // 2, 1)
        pools = [self.add("POOLING", [x], self.tensors[x].chw, op="MAX", kernel=[k] * 2, stride=[1, 1]) for k in (5, 9, 13)]
        return self.conv(self.join([x, *pools]), channels, 1)

    def head(self, x: str, channels: int) -> str:
        x = self.conv(x, channels, 1)
        classes, boxes = (self.conv3(self.conv3(x, channels), channels) for _ in range(2))
        scores = [self.bare(classes, 80, 1), self.bare(boxes, 1, 1)]
        scores = [self.add("ACTIVATION", [s], self.tensors[s].chw, op="SIGMOID") for s in scores]
        return self.join([self.bare(boxes, 4, 1), *scores])

    def graph(self, outputs: Sequence[str], name: str) -> LayerGraph:
        return LayerGraph(name, tuple(self.layers), self.tensors, ("@0",), tuple(outputs))
