"""REDUCE: sum, average, maximum, ... over axes. ONNX GlobalAveragePool is a REDUCE AVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Reduce(Kind):
    """IReduceLayer; `axes` in the tensor's own numbering."""

    TYPE: ClassVar[str] = "REDUCE"

    out_dims: Tuple[int, ...] = (1, 64, 1, 1)
    op: str = "MAX"
    axes: Tuple[int, ...] = (2, 3)
    keep_dims: bool = True

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Reduce:
        p = layer.params
        return cls(
            **cls.common(layer, graph),
            op=str(p.get("op", "")),
            axes=tuple(int(a) for a in p.get("axes") or ()),
            keep_dims=bool(p.get("keep_dims", True)),
        )

    @property
    def is_spatial_mean(self) -> bool:
        """The mean of each channel, over H and W."""
        return self.op == "AVG" and sorted(self.axes_from_channel) == [1, 2]

    @property
    def axes_from_channel(self) -> Tuple[int, ...]:
        """0, 1, 2 for C, H, W; negative for the dims before them."""
        return tuple(a - (self.in_rank - 3) for a in self.axes)
