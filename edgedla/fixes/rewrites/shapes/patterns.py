"""Reshapes in the forms that exporters write, and the nodes between one and its reader."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from edgedla.fixes.network.network import Network

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
#: Elementwise on one operand, so that it gives the same before and after a reshape.
POINTWISE = (
    "Relu",
    "Clip",
    "Sigmoid",
    "Tanh",
    "LeakyRelu",
    "HardSigmoid",
    "HardSwish",
    "Elu",
    "Erf",
    "Neg",
    "Identity",
    "Dropout",
)


def behind_flatten(network: Network, value: Any) -> Optional[Tuple[Any, List[Any]]]:
    """(the N x C x H x W tensor that a [N, C H W] value is a reshape of, the nodes from it to the value), or None.

    Activations in between are among the nodes where nothing else reads them.
    """
    shape = network.shape(value)
    if shape is None or len(shape) != 2:
        return None
    nodes: List[Any] = []
    current = value
    while True:
        node = network.producer(current, *RESHAPES, *POINTWISE)
        if node is None or (nodes and network.only_reader(current) is None):
            return None
        nodes.append(node)
        source = node.inputs[0]
        dims = network.shape(source)
        if dims is None:
            return None
        if node.op_type in RESHAPES and len(dims) == 4 and dims[0] == shape[0]:
            return source, nodes[::-1]
        current = source


def replayed(editor: Any, nodes: List[Any], x: Any) -> Any:
    """The activations among the nodes, applied to another tensor."""
    for node in nodes:
        if node.op_type in POINTWISE:
            attributes = {name: a.value for name, a in node.attributes.items()}
            x = editor.op(node.op_type, x, *node.inputs[1:], **attributes)
    return x
