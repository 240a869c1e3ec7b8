"""ACTIVATION: one function of each element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Activation(Kind):
    """IActivationLayer. For CLIP alpha is the lower and beta the upper bound; for LEAKY_RELU alpha is the slope."""

    TYPE: ClassVar[str] = "ACTIVATION"

    op: str = "RELU"
    alpha: float = 0.0
    beta: float = 0.0

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Activation:
        p = layer.params
        return cls(
            **cls.common(layer, graph),
            op=str(p.get("op", "")),
            alpha=float(p.get("alpha") or 0.0),
            beta=float(p.get("beta") or 0.0),
        )
