"""Parameters that an untrained model shares through Identity nodes, and the model as it would be after training.

PyTorch's exporter writes equal tensors once and hands them on through Identity nodes. In a model that was never trained
all BatchNormalization layers start with the same ones and zeros, so that their parameters are shared; the parser makes a
layer of each Identity, and of a BatchNormalization whose parameters are no initializers four elementwise layers. After
training the tensors differ, and neither is there.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Optional, Tuple

#: Inputs that hold parameters which training changes, by operator.
TRAINED_INPUTS: Dict[str, Tuple[int, ...]] = {
    "BatchNormalization": (1, 2, 3, 4),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (1, 2),
    "InstanceNormalization": (1, 2),
    "PRelu": (1,),
}


def shared_parameters(graph: Any) -> FrozenSet[str]:
    """Names of Identity outputs that pass an initializer only to inputs for trained parameters."""
    identities = [node for node in graph.node if node.op_type == "Identity"]
    if not identities:
        return frozenset()
    initializers = {i.name for i in graph.initializer}
    shared = {n.output[0] for n in identities if n.input and n.output and n.input[0] in initializers}
    if not shared:
        return frozenset()
    read = set()
    for node in graph.node:
        trained = TRAINED_INPUTS.get(node.op_type, ())
        for position, name in enumerate(node.input):
            if name in shared:
                if position in trained:
                    read.add(name)
                else:
                    shared.discard(name)
    return frozenset((shared & read) - {o.name for o in graph.output})


def read_directly(model: Any, only: Optional[FrozenSet[str]] = None) -> None:
    """Takes out the Identity nodes that hand on initializers, of these outputs if `only` is given: whoever reads them reads the
    initializers. The outputs stay, bit by bit."""
    constants = {i.name for i in model.graph.initializer}
    outputs = {o.name for o in model.graph.output}
    aliases: Dict[str, str] = {}
    nodes: List[Any] = []
    for node in model.graph.node:
        for i, value in enumerate(node.input):
            node.input[i] = aliases.get(value, value)
        hands_on = node.op_type == "Identity" and node.input[0] in constants and node.output[0] not in outputs
        if hands_on and (only is None or node.output[0] in only):
            aliases[node.output[0]] = node.input[0]
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
