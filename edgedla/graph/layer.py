"""One TensorRT layer and one ONNX node, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple

from edgedla.graph.source import SourceLocation


@dataclass(frozen=True)
class Layer:
    """A layer of the TensorRT network (INetworkDefinition), before TensorRT optimises it.

    Attributes:
        index: position in the network, in the order in which the parser adds the layers; all but a RECURRENCE read earlier ones.
        type: TensorRT's LayerType name, for example CONVOLUTION, SHUFFLE, ELEMENTWISE.
        name: TensorRT's layer name.
        onnx_node: name of the ONNX node that the layer comes from ("" if none).
        onnx_op: that node's operator.
        inputs, outputs: tensor names, in order.
        params: the layer's parameters under the parser's own names (`kernel`, `stride`, `pre_padding`, `op`, `axis`, ...).
            edgedla.graph.kinds reads them into numbers named by axis.
        source: where in the user's code the node comes from; None if the exporter did not record it.
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
    """An ONNX node and the layers that it becomes.

    Attributes:
        name: the node's name; unnamed nodes get the name that TensorRT's parser gives them.
        op: ONNX operator.
        layers: indices of its live layers (empty: no layer, or only constants).
        constant_layers: LayerType names of its layers whose outputs are build-time constants.
        unknown: why the importer does not know its layers ("" if it does).
        nested: whether it is in a subgraph or function; its layers then count to the last node before it that is not nested.
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
