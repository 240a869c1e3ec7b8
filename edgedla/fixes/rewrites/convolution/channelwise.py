"""A Conv and the channelwise operators behind it, and the same for some of its channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Refused

#: Operators of which each channel of the result depends on the same channel of the operands alone.
ELEMENTWISE = frozenset(
    "Abs Add Clip Div Elu Erf Exp Gelu HardSigmoid HardSwish Identity LeakyRelu Max Min Mish Mul Neg PRelu Pow Relu Selu Sigmoid "
    "Softplus Softsign Sqrt Sub Tanh".split()
)
NORMALIZATION = "BatchNormalization"


@dataclass(frozen=True)
class Chain:
    """conv: with one group. behind: channelwise nodes that lead from it to `end`, in order. channels: of `end`."""

    conv: Any
    behind: Tuple[Any, ...]
    end: Any
    channels: int

    @property
    def nodes(self) -> Tuple[Any, ...]:
        return (self.conv, *self.behind)


def chain_behind(network: Network, end: Any, readers: Sequence[Any]) -> Chain:
    """The chain that makes `end`.

    Args:
        readers: the nodes that read `end`; no other may.

    Raises:
        Refused: something else makes it, or another node reads one of its values.
    """
    network.dtype(end)
    channels = network.nchw(end)[1]
    nodes: Dict[int, Any] = {}
    convolutions: List[Any] = []
    pending = [end]
    while pending:
        node = _maker(network, pending.pop(), channels)
        if id(node) in nodes:
            continue
        nodes[id(node)] = node
        if node.op_type == "Conv" and attribute(node, "group", 1) == 1:
            convolutions.append(node)
        else:
            pending += [v for v in _operands(node) if not network.is_constant(v)]
    if len(convolutions) != 1:
        raise Refused(f"it cuts a result of {len(convolutions)} convolutions")
    allowed = {id(node) for node in (*readers, *nodes.values())}
    for node in nodes.values():
        value = node.outputs[0]
        if value.is_graph_output() or any(id(n) not in allowed for n in network.readers(value)):
            raise Refused(f"{value.name} is read whole too")
    behind = [n for n in network.graph if id(n) in nodes and n is not convolutions[0]] if len(nodes) > 1 else []
    return Chain(convolutions[0], tuple(behind), end, channels)


def _maker(network: Network, value: Any, channels: int) -> Any:
    """The node of a chain that makes a value.

    Raises:
        Refused: another kind of node makes it, or one whose numbers a part cannot take over.
    """
    node = network.producer(value, "Conv", NORMALIZATION, *ELEMENTWISE)
    if node is None:
        maker = value.producer()
        what = "an input of the network" if maker is None else f"the output of {maker.op_type}"
        raise Refused(f"it cuts {what}, not of a convolution")
    if network.nchw(value)[1] != channels or any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        raise Refused(f"{value.name} has other channels than the {channels} that it cuts")
    if node.op_type in ELEMENTWISE:
        for operand in _operands(node):
            if network.is_constant(operand):
                _channel_axis(network.weight_shape(operand), channels)
        return node
    groups = attribute(node, "group", 1)
    if groups not in (1, channels):
        raise Refused(f"{value.name} comes from {groups} groups: each part would read a cut of their input")
    for weight in node.inputs[1:]:
        if network.producer(weight, "DequantizeLinear") is not None:
            raise Refused(f"{weight.name} is quantized: `edgedla quantize` turns Q/DQ into scales first")
        if weight is not None and network.weight_shape(weight)[:1] != (channels,):
            raise Refused(f"{weight.name} has not one row for each of the {channels} channels")
    return node


def _operands(node: Node) -> List[Any]:
    """What it reads of a map, without the weights of a Conv or a normalisation."""
    return [v for v in (node.inputs if node.op_type in ELEMENTWISE else node.inputs[:1]) if v is not None]


def _channel_axis(dims: Sequence[int], channels: int) -> int:
    """The axis of a constant along which the channels lie; -1 where it has the same number for each.

    Raises:
        Refused: it has another number of channels.
    """
    axis = len(dims) - 3
    if axis < 0 or dims[axis] == 1:
        return -1
    if dims[axis] != channels or axis > 1:
        raise Refused(f"a constant of {list(dims)} does not fit {channels} channels")
    return axis


def of_channels(editor: Any, chain: Chain, taken: slice) -> Any:
    """The end of the chain for these channels alone."""
    network = editor.network
    count = len(range(*taken.indices(chain.channels)))

    def rows(weight: Any) -> Any:
        return weight if weight is None else _along(editor, weight, 0, taken, count)

    def operand(value: Any) -> Any:
        if value is None or id(value) in made:
            return None if value is None else made[id(value)]
        axis = _channel_axis(network.weight_shape(value), chain.channels)
        return value if axis < 0 else _along(editor, value, axis, taken, count)

    made: Dict[int, Any] = {}
    for node in chain.nodes:
        attributes = {name: a.value for name, a in node.attributes.items()}
        if node.op_type in ELEMENTWISE:
            inputs = [operand(v) for v in node.inputs]
        else:
            source = node.inputs[0] if node is chain.conv else operand(node.inputs[0])
            inputs = [source, *(rows(v) for v in node.inputs[1:])]
        if attributes.get("group", 1) > 1:
            attributes["group"] = count
        made[id(node.outputs[0])] = editor.op(node.op_type, *inputs, **attributes)
    return made[id(chain.end)]


def _along(editor: Any, weight: Any, axis: int, taken: slice, count: int) -> Any:
    dims = list(editor.network.weight_shape(weight))
    dims[axis] = count
    where = (slice(None),) * axis + (taken,)
    return editor.derived((weight,), dims, lambda elements: elements[where], "weight" if len(dims) == 4 else "part")
