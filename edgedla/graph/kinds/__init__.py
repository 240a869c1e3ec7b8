"""TensorRT layer kinds: one file each. To add one, write its file and name it in KINDS."""

from __future__ import annotations

from typing import Dict, Type

from edgedla.graph.kinds.base import Kind
from edgedla.graph.kinds.convolution import Convolution
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph

KINDS: Dict[str, Type[Kind]] = {
    "CONVOLUTION": Convolution,
}


def kind_of(layer: Layer, graph: LayerGraph) -> Kind:
    """The layer's numbers as a value of its kind; the base Kind for types that have no file of their own."""
    return KINDS.get(layer.type, Kind).of(layer, graph)


__all__ = ["KINDS", "Kind", "kind_of"]
