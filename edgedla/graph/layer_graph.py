"""The network as TensorRT's parser makes it: live layers, tensors, and the ONNX nodes behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, Optional, Tuple, TypeVar

from edgedla.graph.layer import Layer, OnnxNode
from edgedla.graph.tensor import Tensor

#: Layers that pass values into a loop's body, layers that pass results out, and the borders of a condition.
LOOP_ENTRIES = frozenset({"ITERATOR", "RECURRENCE"})
LOOP_EXITS = frozenset({"LOOP_OUTPUT", "TRIP_LIMIT"})
CONDITION_BORDERS = frozenset({"CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT"})
#: Up to this many layers a graph caches derived results, some 2 kB per layer. Above, memory matters more than time.
MOST_CACHED = 10_000
T = TypeVar("T")
#: Layer types of Q/DQ nodes, which state scales.
QUANTIZING = ("QUANTIZE", "DEQUANTIZE")
#: Key of a model's metadata: what the model that it was made from takes on the GPU alone.
GPU_ALONE = "edgedla.gpu-alone"
#: Key of a model's metadata: that `edgedla fix` converted it to FLOAT16.
HALVED = "edgedla.float16"
#: Parameter of a convolution whose weights in the model's file are 2:4 sparse.
SPARSE = "sparse_weights"


@dataclass(frozen=True)
class LayerGraph:
    """A TensorRT network definition as a value.

    A RECURRENCE reads what a later layer of its loop writes: the one edge that runs against the order of `layers`.

    `layers` holds only live layers. Layers whose outputs are build-time constants are listed by type in
    `OnnxNode.constant_layers`; their outputs are in `tensors`, with `is_constant`.

    Attributes:
        name: the model's name (file name without its ending).
        layers: live layers in topological order; `layers[i].index == i`.
        tensors: every tensor that a live layer reads or writes, by name.
        inputs, outputs: names of the network's input and output tensors.
        nodes: all ONNX nodes, in the model's order.
        lowering: the TensorRT release whose observed parser the layers follow, for example "10.3".
        stands_in_for: the user's release, if its own parser was not observed; else "".
        opset: version of the default ONNX domain.
        sha256: of the model file, hex; "" for a graph without a file.
        notes: what the reader should know (dynamic dims, missing external data).
        constant_users: how many live layers read each constant, by `Tensor.constant_of`.
        as_exported: the layers of the file as exported, if this graph is the model as it will be after training; else None.
        gpu_alone: the metadata GPU_ALONE of the model; "" without it. halved: whether it has the metadata HALVED.
    """

    name: str
    layers: Tuple[Layer, ...]
    tensors: Mapping[str, Tensor]
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    nodes: Tuple[OnnxNode, ...] = ()
    lowering: str = "10.3"
    stands_in_for: str = ""
    opset: int = 0
    sha256: str = ""
    notes: Tuple[str, ...] = ()
    constant_users: Mapping[str, int] = field(default_factory=dict)
    as_exported: Optional[LayerGraph] = field(default=None, repr=False, compare=False)
    gpu_alone: str = field(default="", repr=False, compare=False)
    halved: bool = field(default=False, repr=False, compare=False)
    _producer: Dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _consumers: Dict[str, List[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _results: Dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for layer in self.layers:
            for t in layer.outputs:
                self._producer[t] = layer.index
            for t in dict.fromkeys(layer.inputs):
                self._consumers.setdefault(t, []).append(layer.index)

    @property
    def narrow(self) -> Tuple[Layer, ...]:
        """Layers that compute in FP16 or BF16 by the model's own types, without casts."""
        types = ("HALF", "BF16")
        return tuple(x for x in self.layers if x.type != "CAST" and any(self.tensors[t].dtype in types for t in x.outputs))

    @property
    def narrow_text(self) -> str:
        """The types that the `narrow` layers compute in, FP16, BF16 or both, and who chose them."""
        dtypes = {self.tensors[t].dtype for layer in self.narrow for t in layer.outputs}
        words = " and ".join(word for dtype, word in (("HALF", "FP16"), ("BF16", "BF16")) if dtype in dtypes)
        return f"{words}, into which `edgedla fix` converted them," if self.halved else f"{words} by the model's own types,"

    def producer(self, tensor: str) -> Optional[int]:
        """Index of the live layer that writes the tensor; None for a network input or a constant."""
        return self._producer.get(tensor)

    def consumers(self, tensor: str) -> Tuple[int, ...]:
        """Indices of the live layers that read the tensor, in order."""
        return tuple(self._consumers.get(tensor, ()))

    def readers(self, tensor: str) -> Tuple[int, ...]:
        """Like `consumers`, without layers that no network output depends on."""
        consumers = self.consumers(tensor)
        return tuple([i for i in consumers if i not in self.unread]) if self.unread else consumers

    def predecessors(self, index: int) -> Tuple[int, ...]:
        """Indices of the live layers that feed layer `index`, without repeats."""
        producers = (self._producer.get(t) for t in self.layers[index].inputs)
        return tuple(dict.fromkeys(i for i in producers if i is not None))

    def successors(self, index: int) -> Tuple[int, ...]:
        """Indices of the live layers that read an output of layer `index`, without repeats."""
        return tuple(dict.fromkeys(c for t in self.layers[index].outputs for c in self._consumers.get(t, ())))

    # tuple(list) is faster than tuple(generator), and these three are called millions of times.
    def input_tensors(self, layer: Layer) -> Tuple[Tensor, ...]:
        tensors = self.tensors
        return tuple([tensors[t] for t in layer.inputs if t])

    def output_tensors(self, layer: Layer) -> Tuple[Tensor, ...]:
        tensors = self.tensors
        return tuple([tensors[t] for t in layer.outputs])

    def activations(self, layer: Layer) -> Tuple[Tensor, ...]:
        """The layer's inputs that are not build-time constants."""
        return tuple([t for t in self.input_tensors(layer) if not t.is_constant])

    @cached_property
    def input_names(self) -> FrozenSet[str]:
        """`inputs` as a set: a network may have tens of thousands."""
        return frozenset(self.inputs)

    @cached_property
    def output_names(self) -> FrozenSet[str]:
        """`outputs` as a set."""
        return frozenset(self.outputs)

    @cached_property
    def unread(self) -> FrozenSet[int]:
        """Indices of the layers that no output of the network depends on, as after an output was removed.

        The borders of loops and conditions count together with what feeds them: more than tensors connects them.
        """
        if not self.outputs:
            return frozenset()
        borders = LOOP_ENTRIES | LOOP_EXITS | CONDITION_BORDERS
        pending = [i for i in map(self._producer.get, self.outputs) if i is not None]
        pending += [layer.index for layer in self.layers if layer.type in borders or not layer.outputs]
        read = set(pending)
        while pending:
            for i in self.predecessors(pending.pop()):
                if i not in read:
                    read.add(i)
                    pending.append(i)
        return frozenset(range(len(self.layers))) - read

    @cached_property
    def qdq_roles(self) -> Mapping[int, str]:
        """How each layer stands to Q/DQ; empty for a network without.

        "quantizes": Q/DQ itself. "between": all that it reads and feeds is Q/DQ or another such layer, so that the scales may decide
        its type. "beside": the others, which reach an input or output of the network.
        """
        pairs = {x.index for x in self.layers if x.type in QUANTIZING}
        if not pairs:
            return {}
        ends = self.input_names | self.output_names
        beside = {x.index for x in self.layers if not ends.isdisjoint((*x.inputs, *x.outputs))} - pairs
        pending = list(beside)
        while pending:
            index = pending.pop()
            near = {*self.predecessors(index), *self.successors(index)} - pairs - beside
            beside |= near
            pending += near
        between = {x.index: "between" for x in self.layers}
        return {**between, **dict.fromkeys(beside, "beside"), **dict.fromkeys(pairs, "quantizes")}

    def once(self, name: str, work_out: Callable[[LayerGraph], T]) -> T:
        """A result that depends only on the graph, computed once. A graph above MOST_CACHED layers caches nothing.

        Args:
            name: name of the result; one name per `work_out`.
        """
        if len(self.layers) > MOST_CACHED:
            return work_out(self)
        if name not in self._results:
            self._results[name] = work_out(self)
        result: T = self._results[name]
        return result

    @cached_property
    def bodies(self) -> FrozenSet[int]:
        """Indices of the layers inside a loop, or in a branch of a condition.

        A branch may read only tensors from outside: it is what the parser makes between a CONDITION and the CONDITIONAL_OUTPUT of
        the same number.
        """
        inside = set(self.loops_around)
        opened: Dict[object, int] = {}
        for layer in self.layers:
            if layer.type == "CONDITION":
                opened[layer.params.get("conditional")] = layer.index
            elif layer.type == "CONDITIONAL_OUTPUT":
                inside.update(range(opened.get(layer.params.get("conditional"), layer.index), layer.index))
        borders = LOOP_ENTRIES | LOOP_EXITS | CONDITION_BORDERS
        return frozenset(i for i in inside if self.layers[i].type not in borders)

    @cached_property
    def loops_around(self) -> Mapping[int, FrozenSet[object]]:
        """The numbers of the loops that a layer stands in, by layer; other layers are left out.

        A loop's body reads, directly or over other layers, what that loop passes in. What another loop in the body passes out is
        still inside.
        """
        entries: Dict[object, List[int]] = {}
        for layer in self.layers:
            if layer.type in LOOP_ENTRIES:
                entries.setdefault(layer.params.get("loop"), []).append(layer.index)
        around: Dict[int, FrozenSet[object]] = {}
        for loop, pending in entries.items():
            inside = set(pending)
            while pending:
                for i in self.successors(pending.pop()):
                    layer = self.layers[i]
                    leaves = layer.type in LOOP_EXITS and layer.params.get("loop") == loop
                    if i not in inside and not leaves:
                        inside.add(i)
                        pending.append(i)
            for i in inside:
                around[i] = around.get(i, frozenset()) | {loop}
        return around

    @cached_property
    def runs(self) -> Mapping[int, Optional[int]]:
        """How often each layer in a loop's body runs while the network runs once; other layers are left out.

        None where the data decide it: a trip limit that is no constant. What a loop's borders do in all passes together is what they
        do with the whole tensor, once.
        """
        trips: Dict[object, Optional[int]] = {}
        for layer in self.layers:
            if layer.type in LOOP_ENTRIES:
                trips.setdefault(layer.params.get("loop"), layer.params.get("trips"))
        for layer in self.layers:
            if layer.type == "TRIP_LIMIT":
                trips[layer.params.get("loop")] = None
        runs: Dict[int, Optional[int]] = {}
        for index, around in self.loops_around.items():
            layer = self.layers[index]
            counts = [trips[n] for n in around if layer.type not in LOOP_ENTRIES or n != layer.params.get("loop")]
            known = [n for n in counts if n is not None]
            if counts:
                runs[index] = math.prod(known) if len(known) == len(counts) else None
        return runs

    def edges(self) -> Iterator[Tuple[int, int, str]]:
        """Every (producer, consumer, tensor) between two live layers."""
        for layer in self.layers:
            for t in layer.outputs:
                for c in self._consumers.get(t, ()):
                    yield layer.index, c, t
