"""TensorRT layer kinds: one file each. To add one, write its file and name it in KINDS."""

from __future__ import annotations

from importlib import import_module
from typing import Dict, Tuple, Type

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph

#: LayerType name -> module and class. A module is imported when its kind first occurs: a check of one network needs about
#: seven of them, and importing all takes longer than applying the rules.
KINDS: Dict[str, Tuple[str, str]] = {
    "ACTIVATION": ("activation", "Activation"),
    "CAST": ("cast", "Cast"),
    "CONCATENATION": ("concatenation", "Concatenation"),
    "CONVOLUTION": ("convolution", "Convolution"),
    "DECONVOLUTION": ("deconvolution", "Deconvolution"),
    "EINSUM": ("einsum", "Einsum"),
    "DEQUANTIZE": ("quantization", "Quantization"),
    "DYNAMIC_QUANTIZE": ("quantization", "Quantization"),
    "ELEMENTWISE": ("elementwise", "Elementwise"),
    "IDENTITY": ("cast", "Cast"),
    "LRN": ("lrn", "LRN"),
    "MATRIX_MULTIPLY": ("matrix_multiply", "MatrixMultiply"),
    "PARAMETRIC_RELU": ("parametric_relu", "ParametricRelu"),
    "POOLING": ("pooling", "Pooling"),
    "QUANTIZE": ("quantization", "Quantization"),
    "REDUCE": ("reduce", "Reduce"),
    "RESIZE": ("resize", "Resize"),
    "SCALE": ("scale", "Scale"),
    "SHUFFLE": ("shuffle", "Shuffle"),
    "SLICE": ("slice", "Slice"),
    "SOFTMAX": ("softmax", "Softmax"),
    "UNARY": ("unary", "Unary"),
}
_loaded: Dict[str, Type[Kind]] = {}


def kind_class(layer_type: str) -> Type[Kind]:
    """The class of a LayerType; the base Kind for types that have no file of their own."""
    cls = _loaded.get(layer_type)
    if cls is None:
        module, name = KINDS.get(layer_type, ("base", "Kind"))
        # Set only when complete: another thread may read it at the same time.
        cls = _loaded[layer_type] = getattr(import_module(f"edgedla.graph.kinds.{module}"), name)
    return cls


def kind_of(layer: Layer, graph: LayerGraph) -> Kind:
    """The layer's numbers as a value of its kind."""
    by_index: Dict[int, Kind] = graph.once("kinds", lambda _: {})
    kind = by_index.get(layer.index)
    # The layer may not be one of the graph's.
    if kind is None or graph.layers[layer.index] is not layer:
        kind = kind_class(layer.type).of(layer, graph)
        if layer.index < len(graph.layers) and graph.layers[layer.index] is layer:
            by_index[layer.index] = kind
    return kind


__all__ = ["KINDS", "Kind", "kind_class", "kind_of"]
