"""Shared by convolution and transposed convolution: kernel, stride, weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Tuple

from edgedla.graph.kinds.base import Kind, is_constant
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Kernelled(Kind):
    """Spatial tuples are in TensorRT's order: (h, w) for 2-D, (d, h, w) for 3-D."""

    TYPE: ClassVar[str] = ""

    kernel: Tuple[int, ...] = (3, 3)
    stride: Tuple[int, ...] = (1, 1)
    dilation: Tuple[int, ...] = (1, 1)
    pre_padding: Tuple[int, ...] = (1, 1)
    post_padding: Tuple[int, ...] = (1, 1)
    groups: int = 1
    out_channels: int = 64
    weights_constant: bool = True
    bias_is_weights: bool = True

    @classmethod
    def kernel_fields(cls, layer: Layer, graph: LayerGraph) -> Dict[str, Any]:
        """The base fields and those above but the padding, read from the graph."""
        p = layer.params
        kernel = tuple(p["kernel"])
        return dict(
            cls.common(layer, graph),
            kernel=kernel,
            stride=tuple(p.get("stride") or (1,) * len(kernel)),
            dilation=tuple(p.get("dilation") or (1,) * len(kernel)),
            groups=int(p.get("groups", 1)),
            out_channels=int(p["nb_output_maps"]),
            weights_constant=is_constant(layer, graph, 1),
            bias_is_weights=not layer.inputs[2:3] or not layer.inputs[2],
        )

    @property
    def spatial_rank(self) -> int:
        return len(self.kernel)

    @property
    def dilated(self) -> bool:
        return any(d > 1 for d in self.dilation)

    @property
    def padding(self) -> Tuple[int, ...]:
        """Padding of all sides in one row: before, then after."""
        return self.pre_padding + self.post_padding

    @property
    def in_channels(self) -> int:
        n = len(self.kernel)
        return self.in_dims[-n - 1] if len(self.in_dims) > n else 1

    @property
    def weight_elements(self) -> int:
        """C_in * C_out / groups * kernel volume."""
        return self.out_channels * self.in_channels // max(self.groups, 1) * math.prod(self.kernel)
