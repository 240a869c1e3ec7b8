"""DECONVOLUTION: transposed convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind, is_constant
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Deconvolution(Kind):
    """IDeconvolutionLayer. Spatial tuples are in TensorRT's order: (h, w) for 2-D.

    Padding is what is cut from the output: pre in front, post behind. SAME modes are turned into numbers.
    """

    TYPE: ClassVar[str] = "DECONVOLUTION"

    out_dims: Tuple[int, ...] = (1, 64, 112, 112)
    kernel: Tuple[int, ...] = (2, 2)
    stride: Tuple[int, ...] = (2, 2)
    dilation: Tuple[int, ...] = (1, 1)
    pre_padding: Tuple[int, ...] = (0, 0)
    post_padding: Tuple[int, ...] = (0, 0)
    groups: int = 1
    out_channels: int = 64
    weights_constant: bool = True

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Deconvolution:
        p = layer.params
        common = cls.common(layer, graph)
        kernel = tuple(p["kernel"])
        ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
        stride = tuple(p.get("stride") or ones)
        dilation = tuple(p.get("dilation") or ones)
        pre, post = tuple(p.get("pre_padding") or zeros), tuple(p.get("post_padding") or zeros)
        mode = str(p.get("padding_mode") or "")
        if mode.startswith("SAME"):
            # out = in * stride with SAME, so what the full size exceeds it by is cut away.
            cut = [max(0, d * (k - 1) + 1 - s) for k, s, d in zip(kernel, stride, dilation)]
            small, large = tuple(c // 2 for c in cut), tuple(c - c // 2 for c in cut)
            pre, post = (large, small) if mode == "SAME_LOWER" else (small, large)
        return cls(
            **common,
            kernel=kernel,
            stride=stride,
            dilation=dilation,
            pre_padding=pre,
            post_padding=post,
            groups=int(p.get("groups", 1)),
            out_channels=int(p["nb_output_maps"]),
            weights_constant=is_constant(layer, graph, 1),
        )

    @property
    def spatial_rank(self) -> int:
        return len(self.kernel)

    @property
    def padding(self) -> Tuple[int, ...]:
        """Padding of all sides in one row: in front, then behind."""
        return self.pre_padding + self.post_padding

    @property
    def in_channels(self) -> int:
        n = len(self.kernel)
        return self.in_dims[-n - 1] if len(self.in_dims) > n else 1

    @property
    def weight_elements(self) -> int:
        n = self.in_channels * self.out_channels // max(self.groups, 1)
        for k in self.kernel:
            n *= k
        return n

    @property
    def macs(self) -> int:
        """Every input element meets every weight of its channel: in_volume / C_in * weights."""
        return self.in_volume // max(self.in_channels, 1) * self.weight_elements
