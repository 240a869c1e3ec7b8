"""LRN: local response normalisation across channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class LRN(Kind):
    """ILRNLayer; `window` counts channels."""

    TYPE: ClassVar[str] = "LRN"

    window: int = 5

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> LRN:
        return cls(**cls.common(layer, graph), window=int(layer.params["window"]))
