"""CONCATENATION: joins tensors along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Concatenation(Kind):
    """IConcatenationLayer.

    Attributes:
        axis: in the tensor's own numbering, never negative.
        input_dims: dims of the run-time inputs, in order.
        inputs: number of inputs, constants included.
    """

    TYPE: ClassVar[str] = "CONCATENATION"

    out_dims: Tuple[int, ...] = (1, 128, 56, 56)
    activation_inputs: int = 2
    axis: int = 1
    input_dims: Tuple[Tuple[int, ...], ...] = ((1, 64, 56, 56), (1, 64, 56, 56))
    inputs: int = 2

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Concatenation:
        common = cls.common(layer, graph)
        axis = int(layer.params.get("axis", 1))
        return cls(
            **common,
            axis=axis % max(len(common["out_dims"]), 1),
            input_dims=tuple(t.dims for t in graph.activations(layer)),
            inputs=sum(1 for t in layer.inputs if t),
        )

    @property
    def dims_of_tensors(self) -> Tuple[Tuple[int, ...], ...]:
        return self.input_dims + (self.out_dims,)

    @property
    def axis_from_channel(self) -> int:
        """The axis counted from the third last (C of NCHW), which is 0."""
        return self.axis - (self.out_rank - 3)
