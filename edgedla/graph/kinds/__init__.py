"""TensorRT layer kinds: one file each. To add one, write its file and name it in KINDS."""

from __future__ import annotations

from typing import Dict, Type

from edgedla.graph.kinds.activation import Activation
from edgedla.graph.kinds.base import Kind
from edgedla.graph.kinds.cast import Cast
from edgedla.graph.kinds.concatenation import Concatenation
from edgedla.graph.kinds.convolution import Convolution
from edgedla.graph.kinds.deconvolution import Deconvolution
from edgedla.graph.kinds.elementwise import Elementwise
from edgedla.graph.kinds.lrn import LRN
from edgedla.graph.kinds.matrix_multiply import MatrixMultiply
from edgedla.graph.kinds.parametric_relu import ParametricRelu
from edgedla.graph.kinds.pooling import Pooling
from edgedla.graph.kinds.reduce import Reduce
from edgedla.graph.kinds.resize import Resize
from edgedla.graph.kinds.scale import Scale
from edgedla.graph.kinds.shuffle import Shuffle
from edgedla.graph.kinds.slice import Slice
from edgedla.graph.kinds.softmax import Softmax
from edgedla.graph.kinds.unary import Unary
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph

KINDS: Dict[str, Type[Kind]] = {
    "ACTIVATION": Activation,
    "CAST": Cast,
    "CONCATENATION": Concatenation,
    "CONVOLUTION": Convolution,
    "DECONVOLUTION": Deconvolution,
    "ELEMENTWISE": Elementwise,
    "IDENTITY": Cast,
    "LRN": LRN,
    "MATRIX_MULTIPLY": MatrixMultiply,
    "PARAMETRIC_RELU": ParametricRelu,
    "POOLING": Pooling,
    "REDUCE": Reduce,
    "RESIZE": Resize,
    "SCALE": Scale,
    "SHUFFLE": Shuffle,
    "SLICE": Slice,
    "SOFTMAX": Softmax,
    "UNARY": Unary,
}


def kind_of(layer: Layer, graph: LayerGraph) -> Kind:
    """The layer's numbers as a value of its kind; the base Kind for types that have no file of their own."""
    return KINDS.get(layer.type, Kind).of(layer, graph)


__all__ = ["KINDS", "Kind", "kind_of"]
