"""DECONVOLUTION: transposed convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.kernelled import Kernelled
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Deconvolution(Kernelled):
    """IDeconvolutionLayer. Padding is what is cut from the output; SAME modes are turned into numbers."""

    TYPE: ClassVar[str] = "DECONVOLUTION"

    out_dims: Tuple[int, ...] = (1, 64, 112, 112)
    kernel: Tuple[int, ...] = (2, 2)
    stride: Tuple[int, ...] = (2, 2)
    pre_padding: Tuple[int, ...] = (0, 0)
    post_padding: Tuple[int, ...] = (0, 0)

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Deconvolution:
        p = layer.params
        f = cls.kernel_fields(layer, graph)
        zeros = (0,) * len(f["kernel"])
        pre, post = tuple(p.get("pre_padding") or zeros), tuple(p.get("post_padding") or zeros)
        mode = str(p.get("padding_mode") or "")
        if mode.startswith("SAME"):
            # out = in * stride with SAME, so what the full size exceeds it by is cut away.
            cut = [max(0, d * (k - 1) + 1 - s) for k, s, d in zip(f["kernel"], f["stride"], f["dilation"])]
            small, large = tuple(c // 2 for c in cut), tuple(c - c // 2 for c in cut)
            pre, post = (large, small) if mode == "SAME_LOWER" else (small, large)
        return cls(**f, pre_padding=pre, post_padding=post)

    @property
    def macs(self) -> int:
        """Every input element meets every weight of its channel: in_volume / C_in * weights."""
        return self.in_volume // max(self.in_channels, 1) * self.weight_elements
