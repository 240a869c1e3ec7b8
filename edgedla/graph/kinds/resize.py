"""RESIZE: nearest, linear and cubic interpolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Optional, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Resize(Kind):
    """IResizeLayer.

    Attributes:
        scales: one a dim; None where the output size is given instead (setOutputDimensions or a size tensor).
        sampling: "coordinate/selector/rounding" in one word, as TensorRT's three enums.
    """

    TYPE: ClassVar[str] = "RESIZE"

    out_dims: Tuple[int, ...] = (1, 64, 112, 112)
    mode: str = "NEAREST"
    scales: Optional[Tuple[float, ...]] = (1.0, 1.0, 2.0, 2.0)
    coordinate_transformation: str = "ASYMMETRIC"
    selector: str = "FORMULA"
    rounding: str = "FLOOR"

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Resize:
        p = layer.params
        given = p.get("scales")
        return cls(
            **cls.common(layer, graph),
            mode=str(p.get("mode", "NEAREST")),
            scales=tuple(float(s) for s in given) if given and not p.get("size_source") else None,
            coordinate_transformation=str(p.get("coordinate_transformation", "ASYMMETRIC")),
            selector=str(p.get("selector", "FORMULA")),
            rounding=str(p.get("rounding", "FLOOR")),
        )

    @property
    def sampling(self) -> str:
        # The rounding only chooses a neighbour, so linear modes do not read it.
        rounding = f"/{self.rounding}" if self.mode == "NEAREST" else ""
        return f"{self.coordinate_transformation}/{self.selector}{rounding}"

    @property
    def has_scales(self) -> bool:
        return self.scales is not None

    @property
    def outer_scales(self) -> Tuple[float, ...]:
        """The scales of all dims but H and W."""
        return (self.scales or ())[:-2]

    @property
    def hw_scales(self) -> Tuple[float, ...]:
        return (self.scales or ())[-2:]
