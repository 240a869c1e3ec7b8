"""QUANTIZE, DEQUANTIZE and DYNAMIC_QUANTIZE: whether a layer is half of a pair, which stands for a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Quantization(Kind):
    """IQuantizeLayer or IDequantizeLayer.

    Attributes:
        paired: a Quantize that only Dequantize reads, or a Dequantize of what a Quantize or a constant gives. A lone one is a border
            between integers and floats: an INT8 input or output of the network, or an integer operator.
    """

    TYPE: ClassVar[str] = "QUANTIZE"

    paired: bool = True

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Quantization:
        if layer.type == "DEQUANTIZE":
            sources = [graph.producer(t.name) for t in graph.activations(layer)]
            paired = all(i is not None and graph.layers[i].type == "QUANTIZE" for i in sources)
        else:
            readers = [graph.layers[i].type for t in layer.outputs for i in graph.readers(t)]
            read_outside = not graph.output_names.isdisjoint(layer.outputs)
            paired = layer.type == "QUANTIZE" and set(readers) == {"DEQUANTIZE"} and not read_outside
        return cls(**cls.common(layer, graph), paired=paired)
