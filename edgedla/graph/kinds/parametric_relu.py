"""PARAMETRIC_RELU: leaky ReLU with a slope tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind, two_inputs
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class ParametricRelu(Kind):
    """IParametricReLULayer."""

    TYPE: ClassVar[str] = "PARAMETRIC_RELU"

    constant_inputs: int = 1
    slope_dims: Tuple[int, ...] = (1, 64, 1, 1)
    slope_constant: bool = True

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> ParametricRelu:
        _, slope = two_inputs(layer, graph)
        return cls(**cls.common(layer, graph), slope_dims=slope.dims, slope_constant=slope.is_constant)

    @property
    def same_rank(self) -> bool:
        return len(self.slope_dims) == self.in_rank
