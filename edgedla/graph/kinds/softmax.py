"""SOFTMAX along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind, volume
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Softmax(Kind):
    """ISoftMaxLayer; `axes` in the tensor's own numbering (TensorRT allows one)."""

    TYPE: ClassVar[str] = "SOFTMAX"

    in_dims: Tuple[int, ...] = (1, 1000, 1, 1)
    out_dims: Tuple[int, ...] = (1, 1000, 1, 1)
    axes: Tuple[int, ...] = (1,)

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Softmax:
        return cls(**cls.common(layer, graph), axes=tuple(int(a) for a in layer.params.get("axes") or ()))

    @property
    def axis_from_channel(self) -> int:
        """0, 1, 2 for C, H, W; negative for the dims before them."""
        return (self.axes[0] if self.axes else 0) - (self.in_rank - 3)

    @property
    def axis_size(self) -> int:
        axis = self.axes[0] if self.axes else 0
        return self.in_dims[axis] if -self.in_rank <= axis < self.in_rank else 1

    @property
    def other_volume(self) -> int:
        """Product of the non-batch dims that are not the axis."""
        return volume(self.in_dims[-3:]) // max(self.axis_size, 1)
