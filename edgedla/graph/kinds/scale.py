"""SCALE: (x * scale + shift) ** power with constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Scale(Kind):
    """IScaleLayer; `mode` is UNIFORM, CHANNEL or ELEMENTWISE."""

    TYPE: ClassVar[str] = "SCALE"

    mode: str = "CHANNEL"
    channel_axis: int = 1
    has_shift: bool = True
    has_scale: bool = True
    has_power: bool = False

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Scale:
        p = layer.params
        return cls(
            **cls.common(layer, graph),
            mode=str(p.get("mode", "CHANNEL")),
            channel_axis=int(p.get("channel_axis") or 1),
            has_shift=bool(p.get("shift")),
            has_scale=bool(p.get("scale")),
            has_power=bool(p.get("power")),
        )

    @property
    def weight_elements(self) -> int:
        each = {"UNIFORM": 1, "ELEMENTWISE": self.in_volume}.get(self.mode, self.in_chw[0])
        return each * (self.has_shift + self.has_scale + self.has_power)
