"""One TensorRT layer and one ONNX node, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple

from edgedla.graph.source import SourceLocation


@dataclass(frozen=True)
class Layer:
    """A layer of the TensorRT network (INetworkDefinition), before TensorRT optimises it.

    Attributes:
        index: position in the network, in the order in which the parser adds the layers (topological).
        type: TensorRT's LayerType name, for example CONVOLUTION, SHUFFLE, ELEMENTWISE.
        name: TensorRT's layer name.
        onnx_node: name of the ONNX node that it comes from ("" if none).
        onnx_op: that node's operator.
        inputs, outputs: tensor names, in order.
        params: the layer's parameters under the parser's own names (`kernel`, `stride`, `pre_padding`, `op`, `axis`, ...).
            edgedla.graph.kinds reads them into numbers named by axis.
        source: where in the user's code the node comes from; None where the exporter left no trace.
    """

    index: int
    type: str
    name: str
    onnx_node: str
    onnx_op: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    source: Optional[SourceLocation] = None


@dataclass(frozen=True)
class OnnxNode:
    """An ONNX node and what became of it.

    Attributes:
        name: the node's name; unnamed nodes get the name that TensorRT's parser gives them.
        op: ONNX operator.
        layers: indices of the live layers it became (empty: no layer, or only constants).
        constant_layers: LayerType names of the layers it adds whose outputs are build-time constants.
        unknown: why the importer could not tell ("" where it could).
        nested: it stands in a subgraph or a function; its layers are work of the node before it that is not nested.
    """

    name: str
    op: str
    layers: Tuple[int, ...] = ()
    constant_layers: Tuple[str, ...] = ()
    unknown: str = ""
    nested: bool = field(default=False, compare=False)

    @property
    def is_folded(self) -> bool:
        """True when nothing of the node is left at run time."""
        return not self.layers and not self.unknown
