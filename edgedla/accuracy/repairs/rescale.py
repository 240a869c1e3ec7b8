"""Multiplies tensors by a factor exactly: weights that write them are multiplied, weights that read them are divided.

    W x + b  ->  relu  ->  V y        =        (f W) x + f b  ->  relu  ->  (V / f) y,   f > 0

Operators between them must have op(f y) = f op(y). A factor of 2**n changes only the exponent of FP32 or FP16 numbers,
as long as they stay in range.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

import numpy as np

from edgedla.accuracy.channels.measure import ChannelGroup
from edgedla.accuracy.channels.units import Units
from edgedla.errors import ModelError
from edgedla.importers.model_file.port_names import free_name, tensor_names
from edgedla.quantization.qdq.nodes import constants_of

#: Operators whose weights can absorb a factor of their outputs or inputs.
WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "BatchNormalization"})
#: Operators with op(f y) = f op(y) for a separate factor per channel.
BY_CHANNEL = frozenset(
    "Relu LeakyRelu MaxPool AveragePool GlobalAveragePool GlobalMaxPool Identity Dropout Resize Upsample".split()
)
#: Operators with op(f y) = f op(y) for one factor for the whole tensor.
WHOLE = BY_CHANNEL | frozenset(
    "Add Sub Sum Max Min Concat Reshape Flatten Transpose Squeeze Unsqueeze Slice Split Pad ReduceMean ReduceSum ReduceMax "
    "DepthToSpace SpaceToDepth Neg Abs Expand".split()
)
#: Operators whose inputs are all data; in other operators only the first input is.
MANY_INPUTS = frozenset({"Add", "Sub", "Sum", "Max", "Min", "Concat"})
Factor = Union[float, np.ndarray]
#: Exponents of the factors of channels: FP16 holds these powers of two and their inverses without loss.
_LEAST_POWER, _MOST_POWER = -15, 14


@dataclass(frozen=True)
class ScaleGroup:
    """Tensors that must take a factor together.

    Attributes:
        sources, sinks: indices of the nodes with weights that write and read them. by_channel: each channel may have
            its own factor.
    """

    tensors: Tuple[str, ...]
    sources: Tuple[int, ...]
    sinks: Tuple[int, ...]
    by_channel: bool


class Wiring:
    """The nodes that write and read each value of an onnx.ModelProto."""

    def __init__(self, model: Any) -> None:
        self.nodes = list(model.graph.node)
        self.constants = constants_of(model)
        self.made = {o: i for i, node in enumerate(self.nodes) for o in node.output if o}
        self.readers: Dict[str, List[int]] = {}
        for i, node in enumerate(self.nodes):
            for name in dict.fromkeys(node.input):
                self.readers.setdefault(name, []).append(i)
        self.outputs = {o.name for o in model.graph.output}
        self.nested = any(a.HasField("g") or a.graphs for node in self.nodes for a in node.attribute)

    def group(self, tensor: str) -> ScaleGroup:
        """The tensors that have to change with this one.

        Raises:
            ModelError: a factor cannot be moved into weights on every side; `where` names the node or tensor.
        """
        if self.nested:
            raise ModelError("the model holds If or Loop nodes", where=tensor)
        members: Dict[str, None] = {}
        sources: Dict[int, None] = {}
        sinks: Dict[int, None] = {}
        operators: Set[str] = set()
        pending = [tensor]
        while pending:
            name = pending.pop()
            if name in members:
                continue
            members[name] = None
            if name in self.outputs or name not in self.made:
                raise ModelError("it is an input or output of the network", where=name)
            maker = self.made[name]
            for i in (maker, *self.readers.get(name, ())):
                node = self.nodes[i]
                if node.op_type in WEIGHTED and (i == maker or node.input[0] == name):
                    self._check_weights(node)
                    (sources if i == maker else sinks)[i] = None
                elif node.op_type in WHOLE:
                    operators.add(node.op_type)
                    pending += self._data(node)
                else:
                    raise ModelError(f"{node.op_type} does not pass a factor on", where=node.name or node.output[0])
        both = [i for i in sources if i in sinks]
        if both:
            raise ModelError("one layer both writes and reads tensors that need the factor", where=self.nodes[both[0]].name)
        weights = [*sources, *sinks]
        by_channel = operators <= BY_CHANNEL and all(self.nodes[i].op_type in ("Conv", "BatchNormalization") for i in weights)
        return ScaleGroup(tuple(members), tuple(sources), tuple(sinks), by_channel)

    def is_by_channel(self, tensor: str, channels: int) -> bool:
        """Whether a node's constants can give each channel of what it writes a factor of its own."""
        node = self.nodes[self.made[tensor]] if tensor in self.made else None
        if node is None or node.op_type not in ("Conv", "BatchNormalization"):
            return False
        of = [self.constants[name].dims for name in node.input[1:] if name in self.constants]
        return len(of) == len(node.input) - 1 and bool(of[0][0] == channels)

    def _data(self, node: Any) -> List[str]:
        names = list(node.input) if node.op_type in MANY_INPUTS else list(node.input[:1])
        constant = [n for n in names if n in self.constants]
        if constant:
            # An added constant would need the factor too.
            raise ModelError(
                f"{node.op_type} adds a constant, which would need the factor too", where=node.name or node.output[0]
            )
        return [*names, *(o for o in node.output if o)]

    def _check_weights(self, node: Any) -> None:
        computed = [n for n in node.input[1:] if n and n not in self.constants]
        if computed:
            raise ModelError(f"its weights {computed[0]} are not constant", where=node.name or node.output[0])


def rescaled(model: Any, group: ScaleGroup, factor: Factor) -> Any:
    """A copy of the model in which the group's tensors are `factor` times as large: one number, or (channels,)."""
    from onnx import numpy_helper

    changed = deepcopy(model)
    constants, used_names = constants_of(changed), set(tensor_names(changed.graph))

    def put(node: Any, place: int, values: np.ndarray) -> None:
        old = numpy_helper.to_array(constants[node.input[place]])
        # A new name, because another node may also read the old constant.
        name = free_name(f"{node.output[0]}/rescaled_{place}", used_names)
        used_names.add(name)
        changed.graph.initializer.append(numpy_helper.from_array(values.astype(old.dtype), name))
        node.input[place] = name

    def read(node: Any, place: int) -> np.ndarray:
        return numpy_helper.to_array(constants[node.input[place]]).astype(np.float64)

    for i in group.sources:
        node = changed.graph.node[i]
        for place, axis in _made_by(node):
            if len(node.input) > place and node.input[place]:
                values = read(node, place)
                put(node, place, values * _along(factor, axis, values.ndim))
    constants.update({i.name: i for i in changed.graph.initializer})
    for i in group.sinks:
        node = changed.graph.node[i]
        if node.op_type == "BatchNormalization":
            # With an input of f x, mean becomes f mean; the variance stays and the scale is divided by f.
            put(node, 3, read(node, 3) * factor)
            put(node, 1, read(node, 1) / factor)
            continue
        values = read(node, 1)
        put(node, 1, values / _read_by(node, factor, values.shape))
    return changed


def divided_behind(model: Any, output: str, units: Units, groups: Sequence[ChannelGroup]) -> Optional[Tuple[Any, str, Set[str]]]:
    """Brings the channels of an output to one range: convolutions write them times powers of two, a product behind divides.

    Returns:
        (a copy of the model, the new node, tensors with new values or names); None if no convolution can do so for this output alone.
    """
    from onnx import helper, numpy_helper

    wiring = Wiring(model)
    writers = {s.tensor: wiring.made[s.tensor] for s in units.sources if wiring.is_by_channel(s.tensor, s.channels)}
    inside = {*units.path, *writers} - {output}
    for name in inside:
        readers = (wiring.nodes[i] for i in wiring.readers.get(name, ()))
        made = {o for node in readers if node.op_type != "Shape" for o in node.output}
        if wiring.nested or name in wiring.outputs or not made <= {*inside, output}:
            return None
    top = max([g.absmax for g in groups if g.tensor not in writers] or [g.absmax for g in groups])
    factor = np.ones(units.count)
    for s in (s for s in units.sources if s.tensor in writers):
        for g in (g for g in groups if g.tensor == s.tensor):
            power = min(max(round(math.log2(top / g.absmax)), _LEAST_POWER), _MOST_POWER)
            factor[s.first + np.asarray(g.channels)] = 2.0**power
        group = ScaleGroup((s.tensor,), (writers[s.tensor],), (), True)
        model = rescaled(model, group, factor[s.first : s.first + s.channels])
    if (factor == 1).all():
        return None
    names = set(tensor_names(model.graph))
    inner, divisor = free_name(f"{output}/rescaled", names), free_name(f"{output}/factors", names)
    inverse = (1.0 / factor)[units.ids].reshape(units.dims).astype(np.float32)
    for axis in range(inverse.ndim):
        if (inverse == inverse.take([0], axis)).all():
            inverse = inverse.take([0], axis)
    model.graph.initializer.append(numpy_helper.from_array(inverse, divisor))
    nodes, at = list(model.graph.node), wiring.made[output]
    nodes[at].output[:] = [inner if name == output else name for name in nodes[at].output]
    nodes.insert(at + 1, helper.make_node("Mul", [inner, divisor], [output], name=f"{inner}/product"))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model, f"{inner}/product", {*inside, inner}


def _made_by(node: Any) -> Tuple[Tuple[int, int], ...]:
    """(operand, axis of the output channels) for each operand that scales the output."""
    if node.op_type == "BatchNormalization":
        return ((1, 0), (2, 0))
    return ((1, 0 if node.op_type == "Conv" else 1), (2, 0))


def _along(factor: Factor, axis: int, rank: int) -> Factor:
    if isinstance(factor, float):
        return factor
    return factor.reshape([-1 if i == axis else 1 for i in range(rank)])


def _read_by(node: Any, factor: Factor, shape: Tuple[int, ...]) -> Factor:
    """The factor of the input channels of a Conv's weights (outputs, inputs of a group, ...)."""
    if isinstance(factor, float):
        return factor
    group = next((a.i for a in node.attribute if a.name == "group"), 1)
    by_output = np.repeat(factor.reshape(group, 1, shape[1]), shape[0] // group, axis=1).reshape(shape[:2])
    return by_output.reshape(*shape[:2], *([1] * (len(shape) - 2)))


def fp16_loss(model: Any, nodes: Tuple[int, ...]) -> float:
    """Largest relative L2 error of FP16 in a weight of these nodes; infinite if one overflows."""
    from onnx import numpy_helper

    constants: Mapping[str, Any] = constants_of(model)
    worst = 0.0
    for i in nodes:
        for name in model.graph.node[i].input[1:]:
            if not name:
                continue
            values = numpy_helper.to_array(constants[name]).astype(np.float64)
            with np.errstate(over="ignore"):
                stored = values.astype(np.float16).astype(np.float64)
            if not np.isfinite(stored).all():
                return float("inf")
            norm = float(np.linalg.norm(values))
            worst = max(worst, float(np.linalg.norm(stored - values)) / norm if norm else 0.0)
    return worst
