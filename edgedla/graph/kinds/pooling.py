"""POOLING: max and average pooling windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.kinds.convolution import resolve_padding
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Pooling(Kind):
    """IPoolingLayer. `pre_padding` and `post_padding` are resolved from the SAME modes.

    Attributes:
        op: MAX, AVERAGE or MAX_AVERAGE_BLEND.
        exclusive: an average that leaves padded elements out of the count.
    """

    TYPE: ClassVar[str] = "POOLING"

    out_dims: Tuple[int, ...] = (1, 64, 28, 28)
    op: str = "MAX"
    window: Tuple[int, ...] = (2, 2)
    stride: Tuple[int, ...] = (2, 2)
    pre_padding: Tuple[int, ...] = (0, 0)
    post_padding: Tuple[int, ...] = (0, 0)
    padding_mode: str = "EXPLICIT_ROUND_DOWN"
    average_count_excludes_padding: bool = False

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Pooling:
        p = layer.params
        common = cls.common(layer, graph)
        window = tuple(p["window"])
        stride = tuple(p.get("stride") or (1,) * len(window))
        pre, post = resolve_padding(p, common["in_dims"][-len(window) :], window, stride, (1,) * len(window))
        return cls(
            **common,
            op=str(p.get("op", "MAX")),
            window=window,
            stride=stride,
            pre_padding=pre,
            post_padding=post,
            padding_mode=str(p.get("padding_mode") or "EXPLICIT_ROUND_DOWN"),
            average_count_excludes_padding=bool(p.get("average_count_excludes_padding", True)),
        )

    @property
    def spatial_rank(self) -> int:
        return len(self.window)

    @property
    def padding(self) -> Tuple[int, ...]:
        """Padding of all sides in one row: before, then after."""
        return self.pre_padding + self.post_padding

    @property
    def exclusive(self) -> bool:
        return self.op == "AVERAGE" and self.average_count_excludes_padding

    @property
    def is_padded(self) -> bool:
        """Whether windows reach over the edge: by padding, or because the output size was rounded up."""
        return any(self.pre_padding) or any(self.post_padding) or self.padding_mode == "EXPLICIT_ROUND_UP"
