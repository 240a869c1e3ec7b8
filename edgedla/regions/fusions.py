"""TensorRT's fusions before it places layers: they give the placement units, each with its layers.

Order and passes as verbose logs of TensorRT 10.3 show them (ResNet-50 and DETR on AGX Orin; YOLO logs of 8.5.2
agree):

- Dead-layer removal: layers that no output of the network depends on are removed. Logs print this before the list of DLA
  layers (TensorRT issue 2252).
- MatMulToConvTransform: a MATRIX_MULTIPLY whose second operand is constant becomes a 1x1 convolution over [rows, K,
  1, 1] with two shuffles that TensorRT names `reshape_before_X` and `reshape_after_X`. Both change the rank: the GPU
  runs them.
- ConvReshapeBiasAddFusion: the addition of a constant bias behind it becomes part of the convolution.
- ShuffleShuffleFusion: shuffles in a row become one. It runs on the GPU if any of them does: 67 transposes of DETR
  that pass the first check end on the GPU in this way.
- ShuffleErasure: a shuffle that moves nothing (Flatten of N x C x 1 x 1 before `reshape_before`, the reshape that
  follows a Softmax) goes away.

ConstShuffleFusion needs no code: shuffles of constants are not live layers. ReduceToPooling, convolution plus
ReLU and pointwise fusions run after the placement, on the GPU's part, and change no device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Container, Dict, List, NamedTuple, Optional, Sequence, Tuple

from edgedla.graph import Layer, LayerGraph
from edgedla.regions.shuffles import Step, layer_steps, simplified

#: Suffixes of the inner tensors of a rewritten MATRIX_MULTIPLY, after the name of its output.
INNER_IN, INNER_OUT = "\0in", "\0out"


def outer_name(name: str, tensors: Container[str]) -> str:
    """The network tensor that an inner tensor belongs to; a tensor of the network itself stays, even with a NUL in its name."""
    for end in (INNER_IN, INNER_OUT):
        if name.endswith(end) and name not in tensors:
            return name[: -len(end)]
    return name


class Unit(NamedTuple):
    """A placement unit: what TensorRT places as one layer.

    Attributes:
        layers: indices of the network layers in it; () for a reshape that only the MATRIX_MULTIPLY transform adds.
        reshape_of: for such reshapes (alone or merged with shuffles), indices of their MATRIX_MULTIPLY layers.
        batch: effective batch (rule G-02); for a transformed MATRIX_MULTIPLY its number of rows.
        inputs: (unit, tensor) for every run-time input that another unit writes.
        network_inputs: names of network inputs that it reads.
        outputs: names of the tensors that it writes.
        is_shuffle: a reshape or transpose.
    """

    layers: Tuple[int, ...]
    reshape_of: Tuple[int, ...]
    batch: int
    inputs: Tuple[Tuple[int, str], ...]
    network_inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    is_shuffle: bool


@dataclass(frozen=True)
class UnitGraph:
    """The network after the fusions. `units` are in topological order; `erased` layers leave nothing behind."""

    units: Tuple[Unit, ...]
    unit_of: Dict[int, int]
    erased: Tuple[int, ...]
    predecessors: Tuple[Tuple[int, ...], ...]
    successors: Tuple[Tuple[int, ...], ...]

    @cached_property
    def batches(self) -> Tuple[int, ...]:
        """Effective batch of every unit."""
        return tuple(unit.batch for unit in self.units)


class _Op:
    """A unit under construction."""

    __slots__ = ("batch", "in_dims", "inputs", "layers", "outputs", "reshape_of", "steps")

    def __init__(self, layers: List[int], inputs: Sequence[str], outputs: Sequence[str], batch: int) -> None:
        self.layers = layers
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.batch = batch
        self.reshape_of: List[int] = []
        self.in_dims: Tuple[int, ...] = ()
        self.steps: Optional[List[Step]] = None


class _Fuser:
    def __init__(self, graph: LayerGraph) -> None:
        self.graph = graph
        self.network_outputs = set(graph.outputs)
        self.ops: List[_Op] = []
        self.producer: Dict[str, _Op] = {}
        # Reshape after it -> the convolution made of a MATRIX_MULTIPLY, while a bias may still be fused into it.
        self.convolution_before: Dict[int, _Op] = {}

    def add(self, op: _Op) -> _Op:
        self.ops.append(op)
        for t in op.outputs:
            self.producer[t] = op
        return op

    def add_shuffle(
        self, layers: List[int], source: str, out: str, in_dims: Tuple[int, ...], steps: Sequence[Step], batch: int
    ) -> _Op:
        """Adds a shuffle; merges it with the shuffle that feeds it if nothing else reads the tensor between them."""
        before = self.producer.get(source)
        if before is not None and before.steps is not None and self.is_private(source):
            before.steps.extend(steps)
            before.layers.extend(layers)
            before.outputs = [out]
            before.batch = batch
            self.producer[out] = before
            self.convolution_before.pop(id(before), None)
            return before
        op = _Op(layers, [source], [out], batch)
        op.in_dims, op.steps = in_dims, list(steps)
        return self.add(op)

    def is_private(self, tensor: str) -> bool:
        """Whether at most one unit reads the tensor, and it is no network output."""
        return tensor not in self.network_outputs and len(self.graph.readers(tensor)) <= 1

    def add_layer(self, layer: Layer) -> None:
        if layer.type == "SHUFFLE":
            steps = layer_steps(layer, self.graph)
            if steps is not None:
                source = self.graph.tensors[layer.inputs[0]]
                self.add_shuffle([layer.index], source.name, layer.outputs[0], source.dims, steps, batch_of(layer, self.graph))
                return
        if is_matmul_by_constant(layer, self.graph):
            self.add_matmul(layer)
        elif not (layer.type == "ELEMENTWISE" and self.joins_as_bias(layer)):
            inputs = [t.name for t in self.graph.activations(layer)]
            self.add(_Op([layer.index], inputs, layer.outputs, batch_of(layer, self.graph)))

    def add_matmul(self, layer: Layer) -> None:
        source = self.graph.activations(layer)[0]
        out = self.graph.tensors[layer.outputs[0]]
        columns = out.dims[-1] if out.dims else 1
        rows = max(out.volume // max(columns, 1), 1)
        transposed = layer.params.get("op0", "NONE") == "TRANSPOSE"
        depth = max(source.volume // rows, 1)
        # Names that no ONNX tensor has, so that inner tensors are never mistaken for the network's.
        inner_in, inner_out = out.name + INNER_IN, out.name + INNER_OUT
        steps: List[Step] = []
        if transposed:
            steps.append(("transpose", tuple(range(source.rank - 2)) + (source.rank - 1, source.rank - 2)))
        steps.append(("reshape", (rows, depth, 1, 1)))
        before = self.add_shuffle([], source.name, inner_in, source.dims, steps, rows)
        before.reshape_of.append(layer.index)
        convolution = self.add(_Op([layer.index], [inner_in], [inner_out], rows))
        after = self.add_shuffle([], inner_out, out.name, (rows, columns, 1, 1), [("reshape", out.dims)], rows)
        after.reshape_of.append(layer.index)
        self.convolution_before[id(after)] = convolution

    def joins_as_bias(self, layer: Layer) -> bool:
        """ConvReshapeBiasAddFusion: `layer` adds one constant per column to a transformed MATRIX_MULTIPLY."""
        activations = self.graph.activations(layer)
        if layer.params.get("op") != "SUM" or len(activations) != 1 or len(layer.inputs) != 2:
            return False
        source = activations[0]
        after = self.producer.get(source.name)
        convolution = self.convolution_before.get(id(after)) if after is not None else None
        out = self.graph.tensors[layer.outputs[0]]
        constant = next(t for t in self.graph.input_tensors(layer) if t.is_constant)
        if (
            after is None
            or convolution is None
            or not self.is_private(source.name)
            or out.dims != source.dims
            or constant.volume not in (1, source.dims[-1])
            or (constant.dims and constant.volume > 1 and constant.dims[-1] != source.dims[-1])
        ):
            return False
        convolution.layers.append(layer.index)
        after.outputs = [out.name]
        self.producer[out.name] = after
        self.convolution_before.pop(id(after))
        return True

    def finish(self) -> UnitGraph:
        erased, alias = self.erase_shuffles()
        remaining = [op for op in self.ops if id(op) not in erased]
        position = {id(op): i for i, op in enumerate(remaining)}
        network_inputs = set(self.graph.inputs)
        units: List[Unit] = []
        predecessors: List[Tuple[int, ...]] = []
        successors: List[List[int]] = [[] for _ in remaining]
        for i, op in enumerate(remaining):
            sources = [alias.get(t, t) for t in dict.fromkeys(op.inputs)]
            inputs = tuple((position[id(self.producer[t])], t) for t in dict.fromkeys(sources) if t in self.producer)
            units.append(
                Unit(
                    tuple(op.layers),
                    tuple(op.reshape_of),
                    op.batch,
                    inputs,
                    tuple(t for t in dict.fromkeys(sources) if t in network_inputs),
                    tuple(op.outputs),
                    op.steps is not None,
                )
            )
            # Only a loop's RECURRENCE reads what a later layer writes; a walk that waited for it would never end.
            feeding = tuple(dict.fromkeys(p for p, _ in inputs if p < i))
            predecessors.append(feeding)
            for p in feeding:
                successors[p].append(i)
        erased_layers = sorted([*self.graph.unread, *(layer for op in self.ops if id(op) in erased for layer in op.layers)])
        unit_of = {layer: i for i, unit in enumerate(units) for layer in unit.layers}
        return UnitGraph(tuple(units), unit_of, tuple(erased_layers), tuple(predecessors), tuple(tuple(s) for s in successors))

    def erase_shuffles(self) -> Tuple[set, Dict[str, str]]:
        """ShuffleErasure: (shuffles that move nothing, their outputs -> the tensors that replace these)."""
        network_inputs = set(self.graph.inputs)
        erased = set()
        alias: Dict[str, str] = {}
        for op in self.ops:
            if op.steps is None or simplified(op.in_dims, op.steps):
                continue
            source = alias.get(op.inputs[0], op.inputs[0])
            # A network output that only copies an input still needs a layer.
            if op.outputs[0] in self.network_outputs and source in network_inputs:
                continue
            erased.add(id(op))
            alias[op.outputs[0]] = source
        return erased, alias


def fuse(graph: LayerGraph) -> UnitGraph:
    """The placement units of a network. They do not depend on verdicts: TensorRT fuses before it looks at devices."""
    return graph.once("units", _fuse)


def _fuse(graph: LayerGraph) -> UnitGraph:
    fuser = _Fuser(graph)
    for layer in graph.layers:
        if layer.index not in graph.unread:
            fuser.add_layer(layer)
    return fuser.finish()


def is_matmul_by_constant(layer: Layer, graph: LayerGraph) -> bool:
    """Whether MatMulToConvTransform applies: only the second operand is constant, a matrix (leading dims, if any, are 1)."""
    if layer.type != "MATRIX_MULTIPLY" or len(layer.inputs) != 2:
        return False
    a, b = graph.input_tensors(layer)
    if a.is_constant or not b.is_constant or a.rank < 2 or a.is_dynamic:
        return False
    return all(d == 1 for d in b.dims[:-2]) and layer.params.get("op1", "NONE") in ("NONE", "TRANSPOSE")


def batch_of(layer: Layer, graph: LayerGraph) -> int:
    """Effective batch of the layer's output; dynamic dims count as 1 (the rules refuse them anyway)."""
    return math.prod(max(d, 1) for name in layer.outputs[:1] for d in graph.tensors[name].dims[:-3])
