"""Values that describe a TensorRT network: tensors, layers, the graph, and the layer kinds."""

from __future__ import annotations

from edgedla.graph.layer import Layer, OnnxNode
from edgedla.graph.layer_graph import LayerGraph
from edgedla.graph.tensor import ELEMENT_BYTES, Tensor

__all__ = ["ELEMENT_BYTES", "Layer", "LayerGraph", "OnnxNode", "Tensor"]
