"""UNARY: one mathematical function of each element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Unary(Kind):
    """IUnaryLayer; `op` is TensorRT's UnaryOperation name: ABS, EXP, LOG, SQRT, RECIP, NEG, ERF, ..."""

    TYPE: ClassVar[str] = "UNARY"

    op: str = "ABS"

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Unary:
        return cls(**cls.common(layer, graph), op=str(layer.params.get("op", "")))
