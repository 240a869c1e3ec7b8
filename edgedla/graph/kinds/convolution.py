"""CONVOLUTION: 2-D (or 3-D) convolution with its numbers named by axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.kernelled import Kernelled
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Convolution(Kernelled):
    """IConvolutionLayer.

    `pre_padding` and `post_padding` are resolved: the SAME modes are turned into numbers, as the DLA sees them.
    """

    TYPE: ClassVar[str] = "CONVOLUTION"

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Convolution:
        f = cls.kernel_fields(layer, graph)
        in_spatial = f["in_dims"][-len(f["kernel"]) :]
        pre, post = resolve_padding(layer.params, in_spatial, f["kernel"], f["stride"], f["dilation"])
        return cls(**f, pre_padding=pre, post_padding=post)

    @property
    def centre_alone(self) -> bool:
        """Whether every tap but the centre one reads padding only, because the dilation is as large as the map."""
        sizes = zip(self.in_dims[-len(self.kernel) :], self.kernel, self.stride, self.dilation)
        edges = zip(self.pre_padding, self.post_padding)
        return any(k > 1 for k in self.kernel) and all(
            s == 1 and k % 2 == 1 and pre == post == d * (k // 2) and (k == 1 or d >= n)
            for (n, k, s, d), (pre, post) in zip(sizes, edges)
        )

    @property
    def macs(self) -> int:
        """Every output element sums over its group: out_volume * weights / C_out."""
        return self.out_volume * self.weight_elements // max(self.out_channels, 1)


def resolve_padding(
    params: object, in_spatial: Tuple[int, ...], kernel: Tuple[int, ...], stride: Tuple[int, ...], dilation: Tuple[int, ...]
) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """Padding per side in elements, with TensorRT's SAME modes turned into numbers.

    SAME: out = ceil(in / stride), total = max(0, (out - 1) * stride + dilation * (kernel - 1) + 1 - in); UPPER puts the
    odd element behind, LOWER in front (NvInfer.h, enum PaddingMode, TensorRT 8.4 to 10.x).
    """
    p: dict = dict(params)  # type: ignore[call-overload]
    mode = p.get("padding_mode") or "EXPLICIT_ROUND_DOWN"
    pre = tuple(p.get("pre_padding") or (0,) * len(kernel))
    post = tuple(p.get("post_padding") or (0,) * len(kernel))
    if not mode.startswith("SAME"):
        return pre, post
    pre_out, post_out = [], []
    for size, k, s, d in zip(in_spatial, kernel, stride, dilation):
        total = max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size) if size > 0 else 0
        small, large = total // 2, total - total // 2
        pre_out.append(large if mode == "SAME_LOWER" else small)
        post_out.append(small if mode == "SAME_LOWER" else large)
    return tuple(pre_out), tuple(post_out)
