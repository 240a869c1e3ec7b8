"""An output of shape [N, K] that is a reshape of a 4-D tensor: the 4-D tensor becomes the output.

The values are the same but the shape differs, which readers of the output must know; so it needs the user's request."""

from __future__ import annotations

from typing import Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.shapes.patterns import RESHAPES
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    output = node.outputs[0]
    x = node.inputs[0]
    shape, dims = network.shape(output), network.shape(x)
    if not output.is_graph_output() or shape is None or dims is None or len(dims) != 4 or len(shape) == 4:
        return None
    if shape[0] != dims[0]:
        raise Refused(f"the batch of {dims[0]} becomes part of another dim")
    if not network.goal.change_outputs:
        raise Refused(f"{output.name} would have the shape {list(dims)}: allow it with --change-outputs")
    if network.producer(x) is None or x is None or x.is_graph_output():
        raise Refused("its 4-D tensor is an input or another output of the model")
    if output.uses():
        raise Refused(f"{output.name} is read inside the model too")
    interface = f"{output.name}: {list(shape)} becomes {list(dims)}, same values in the same order"
    return Site(output, (node,), lambda editor: x, new_interface=interface)


REWRITE = Rewrite(
    "outputs-4d",
    RESHAPES,
    match,
    (
        holds("x 1x8x1x1", "r = Relu(x) y = Flatten(r)", change_outputs=True),
        refuses("x 1x8x1x1", "r = Relu(x) y = Flatten(r)", "--change-outputs"),
        refuses("x 1x8x1x1", "y = Flatten(x)", "input", change_outputs=True),
        no_pattern("x 1x8x2x2", "s = Constant<value_ints = [1, 4, 4, 2]>() r = Relu(x) y = Reshape(r, s)", change_outputs=True),
    ),
)
