"""CAST and IDENTITY: changes the element type, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph

#: Comparisons: their results exist only as BOOL, before a cast.
COMPARISONS = ("EQUAL", "GREATER", "LESS")


@dataclass(frozen=True)
class Cast(Kind):
    """ICastLayer or IIdentityLayer; `producer` is the operation before it: EQUAL, a LayerType, "" for an input."""

    TYPE: ClassVar[str] = "CAST"

    in_dtype: str = "BOOL"
    producer: str = "EQUAL"

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Cast:
        before = graph.predecessors(layer.index)
        producer = ""
        if before:
            source = graph.layers[before[0]]
            producer = str(source.params.get("op", "")) if source.type == "ELEMENTWISE" else source.type
        return cls(**cls.common(layer, graph), producer=producer)

    @property
    def dtypes(self) -> Tuple[str, ...]:
        return (self.out_dtype,) if self.ends_comparison else (self.in_dtype, self.out_dtype)

    @property
    def ends_comparison(self) -> bool:
        return self.producer in COMPARISONS
