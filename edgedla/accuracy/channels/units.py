"""Which channel of which tensor each element of an output comes from, through concatenations and moves of any rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Set, Tuple

import numpy as np

from edgedla.accuracy.measured_outputs import output_fields
from edgedla.importers.model_file.tensor_types import FLOAT, tensor_types
from edgedla.quantization.samples import Feed
from edgedla.quantization.session import open_session

#: Operators whose output holds values of their inputs, moved, repeated, or the largest of one channel.
MOVES = frozenset(
    (
        "Concat",
        "Transpose",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Identity",
        "Slice",
        "Split",
        "Gather",
        "Expand",
        "Tile",
        "DepthToSpace",
        "SpaceToDepth",
        "Pad",
        "MaxPool",
        "GlobalMaxPool",
    )
)
#: Operators whose values all lie in -1 .. 1: a small channel is small there for every scale.
_BOUNDED = frozenset(("Sigmoid", "HardSigmoid", "Tanh", "Softmax"))
#: Operators that keep the axis of channels of their first input.
_KEEP_AXIS = frozenset(
    ("Add", "Mul", "Sub", "Div", "Relu", "Sigmoid", "Softmax", "Tanh", "Clip", "HardSigmoid", "HardSwish", "Erf")
)
_LAST_AXIS = frozenset(("MatMul", "Gemm", "LayerNormalization"))


@dataclass(frozen=True)
class Source:
    """A tensor that an output holds, unmoved. `bounded`: its values lie in -1 .. 1. `first`: number of its first channel."""

    tensor: str
    first: int
    channels: int
    bounded: bool


@dataclass(frozen=True)
class Units:
    """The channels of one output.

    Attributes:
        ids: number of the channel of each element, flat; 0 is none (padding). path: tensors from the sources to the output.
        dims: of the output.
    """

    ids: np.ndarray
    dims: Tuple[int, ...]
    sources: Tuple[Source, ...]
    path: Tuple[str, ...]

    @property
    def count(self) -> int:
        return max((s.first + s.channels for s in self.sources), default=1)


def units_of(model: Any, names: Sequence[str], feed: Feed) -> Dict[str, Units]:
    """The channels of these float tensors of an onnx.ModelProto with static inputs; leaves out those of no element.

    Numbers the channels of every source, and runs the moves behind on these numbers.

    Args:
        feed: a sample, for the sizes that ONNX's shape inference does not find.
    """
    graph = _Graph(model, feed)
    units = {}
    for name in names:
        if all(graph.dims(name)):
            found = graph.units(name)
            if found is not None:
                units[name] = found
    return units


def _ran(model: Any, names: Tuple[str, ...], feed: Feed) -> Dict[str, Tuple[int, Tuple[int, ...]]]:
    """Tensor -> (element type, dims), from a run with every tensor as an output."""
    from onnx import helper

    values = open_session(model.SerializeToString() + output_fields(model, names)).run(names, feed)
    arrays = {name: value for name, value in zip(names, values) if isinstance(value, np.ndarray)}
    return {n: (helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items() if a.dtype.kind in "biuf"}


class _Graph:
    def __init__(self, model: Any, feed: Feed) -> None:
        self.model = model
        self.types = tensor_types(model)
        names = [o for node in model.graph.node for o in node.output if o]
        if not all(name in self.types and all(self.types[name][1]) for name in names):
            self.types.update(_ran(model, tuple(names), feed))
        self.makers = {o: node for node in model.graph.node for o in node.output if o}
        self.constants = {i.name for i in model.graph.initializer}

    def dims(self, name: str) -> Tuple[int, ...]:
        return self.types[name][1] if name in self.types else (0,)

    def _is_float(self, name: str) -> bool:
        return name not in self.constants and self.types.get(name, (0, ()))[0] == FLOAT

    def units(self, output: str) -> Any:
        """The units of one tensor; None if a source's size is unknown."""
        nodes, fed, path = self._tail(output)
        if not all(all(self.dims(n)) for n in fed):
            return None
        labels, sources, first = {}, [], 1
        for name in fed:
            dims = self.dims(name)
            axis = self._axis(name)
            channels = dims[axis] if dims else 1
            shape = [channels if i == axis else 1 for i in range(len(dims))]
            numbers = np.arange(first, first + channels, dtype=np.float32).reshape(shape)
            labels[name] = np.broadcast_to(numbers, dims).copy()
            sources.append(Source(name, first, channels, self._bounded(name, 4)))
            first += channels
        if not nodes:
            ids = labels[output]
        else:
            ids = open_session(self._model(nodes, fed, output)).run([output], labels)[0]
        return Units(np.rint(ids).astype(np.int64).reshape(-1), np.shape(ids), tuple(sources), tuple(path))

    def _tail(self, output: str) -> Tuple[List[Any], List[str], List[str]]:
        """(nodes that move values to the output, the tensors they begin at, float tensors on the way)."""
        needed: Set[int] = set()
        fed: Dict[str, None] = {}
        path: Dict[str, None] = {}
        waiting = [output]
        seen: Set[str] = set()
        while waiting:
            name = waiting.pop()
            if not name or name in seen or name in self.constants:
                continue
            seen.add(name)
            node = self.makers.get(name)
            if node is None or (self._is_float(name) and node.op_type not in (*MOVES, "Constant")):
                fed[name] = None
                continue
            if self._is_float(name):
                path[name] = None
            needed.add(id(node))
            waiting.extend(node.input)
        return [node for node in self.model.graph.node if id(node) in needed], list(fed), list(path)

    def _model(self, nodes: Sequence[Any], fed: Sequence[str], output: str) -> bytes:
        from onnx import ModelProto, helper

        read = {i for node in nodes for i in node.input}
        part = ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        part.graph.name = "units"
        part.graph.node.extend(nodes)
        part.graph.initializer.extend(i for i in self.model.graph.initializer if i.name in read)
        part.graph.input.extend(helper.make_tensor_value_info(n, self.types[n][0], list(self.dims(n))) for n in fed)
        part.graph.output.add().name = output
        return bytes(part.SerializeToString())

    def _axis(self, name: str) -> int:
        """The axis of channels: 1, or the last one behind a matrix product; of rank 3 else the shorter one."""
        rank = len(self.dims(name))
        if rank != 3:
            return min(1, rank - 1)
        at = name
        for _ in range(8):
            node = self.makers.get(at)
            if node is None:
                break
            if node.op_type in _LAST_AXIS:
                return 2
            if node.op_type in ("Conv", "ConvTranspose"):
                return 1
            if node.op_type not in _KEEP_AXIS:
                break
            at = node.input[0]
        return 1 if self.dims(name)[1] <= self.dims(name)[2] else 2

    def _bounded(self, name: str, depth: int) -> bool:
        node = self.makers.get(name)
        if node is None or not depth:
            return False
        if node.op_type in _BOUNDED:
            return True
        floats = [i for i in node.input if self._is_float(i)]
        product = node.op_type == "Mul" and len(floats) == 2
        return (product or node.op_type in MOVES) and bool(floats) and all(self._bounded(i, depth - 1) for i in floats)
