"""SHUFFLE: transpose, reshape, transpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Optional, Tuple

from edgedla.graph.kinds.base import Kind, neighbour_types, volume
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Shuffle(Kind):
    """IShuffleLayer.

    Attributes:
        first_transpose, second_transpose: permutations; None where there is none.
        reshapes: the layer sets reshape dimensions (possibly to the same shape).
        static: the reshape dims are known when the engine is built.
        neighbours: LayerType names of the layers directly before and after it.
        on_constant: its data input is a build-time constant.
    """

    TYPE: ClassVar[str] = "SHUFFLE"

    first_transpose: Optional[Tuple[int, ...]] = None
    second_transpose: Optional[Tuple[int, ...]] = None
    reshapes: bool = True
    static: bool = True
    neighbours: Tuple[str, ...] = ("CONVOLUTION",)
    on_constant: bool = False

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Shuffle:
        p = layer.params
        first, second, reshape = p.get("first_transpose"), p.get("second_transpose"), p.get("reshape")
        return cls(
            **cls.common(layer, graph),
            first_transpose=tuple(first) if first else None,
            second_transpose=tuple(second) if second else None,
            reshapes=reshape is not None,
            static=len(layer.inputs) < 2 or graph.tensors[layer.inputs[1]].is_constant,
            neighbours=neighbour_types(layer, graph),
            on_constant=bool(layer.inputs) and graph.tensors[layer.inputs[0]].is_constant,
        )

    @property
    def transposes(self) -> bool:
        return any(p is not None and p != tuple(range(len(p))) for p in (self.first_transpose, self.second_transpose))

    @property
    def changes_shape(self) -> bool:
        """The reshape part does more than keep the dims."""
        moved = self.in_dims
        if self.first_transpose and len(self.first_transpose) == len(moved):
            moved = tuple(moved[i] for i in self.first_transpose)
        target = self.out_dims
        if self.second_transpose and len(self.second_transpose) == len(target):
            undone = [0] * len(target)
            for place, source in enumerate(self.second_transpose):
                undone[source] = target[place]
            target = tuple(undone)
        return self.reshapes and moved != target

    @property
    def keeps_batch(self) -> bool:
        """The dims before C, H, W stay in front and keep their size.

        A transpose that moves a leading dim fails even where that dim is 1.
        """
        for p in (self.first_transpose, self.second_transpose):
            if p is not None and any(p[i] != i for i in range(max(len(p) - 3, 0))):
                return False
        return volume(self.in_dims[:-3]) == volume(self.out_dims[:-3])
