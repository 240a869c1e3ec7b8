"""CONVOLUTION: 2-D (or 3-D) convolution with its numbers named by axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Convolution(Kind):
    """IConvolutionLayer. Spatial tuples are in TensorRT's order: (h, w) for 2-D, (d, h, w) for 3-D.

    `pre_padding` and `post_padding` are resolved: the SAME modes are turned into numbers, as the DLA sees them.
    """

    TYPE: ClassVar[str] = "CONVOLUTION"

    kernel: Tuple[int, ...] = (3, 3)
    stride: Tuple[int, ...] = (1, 1)
    dilation: Tuple[int, ...] = (1, 1)
    pre_padding: Tuple[int, ...] = (1, 1)
    post_padding: Tuple[int, ...] = (1, 1)
    groups: int = 1
    out_channels: int = 64
    weights_constant: bool = True

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Convolution:
        p = layer.params
        common = cls.common(layer, graph)
        kernel = tuple(p["kernel"])
        stride = tuple(p.get("stride") or (1,) * len(kernel))
        dilation = tuple(p.get("dilation") or (1,) * len(kernel))
        pre, post = resolve_padding(p, common["in_dims"][-len(kernel) :], kernel, stride, dilation)
        kernel_input = graph.tensors.get(layer.inputs[1]) if len(layer.inputs) > 1 else None
        return cls(
            **common,
            kernel=kernel,
            stride=stride,
            dilation=dilation,
            pre_padding=pre,
            post_padding=post,
            groups=int(p.get("groups", 1)),
            out_channels=int(p["nb_output_maps"]),
            weights_constant=kernel_input is None or kernel_input.is_constant,
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
    def macs(self) -> int:
        return self.out_volume * self.weight_elements // max(self.out_channels, 1)

    @property
    def weight_elements(self) -> int:
        n = self.out_channels * self.in_channels // max(self.groups, 1)
        for k in self.kernel:
            n *= k
        return n


def resolve_padding(
    params: object,
    in_spatial: Tuple[int, ...],
    kernel: Tuple[int, ...],
    stride: Tuple[int, ...],
    dilation: Tuple[int, ...],
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
