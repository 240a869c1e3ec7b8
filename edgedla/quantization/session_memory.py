"""Estimates the memory of an ONNX Runtime session from the model's shapes, before the session opens.

A file of a kilobyte can describe tensors of gigabytes.
"""

from __future__ import annotations

import math
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from edgedla.importers.model_file.shape_inference import inferred_by_values, with_inferred_shapes
from edgedla.importers.model_file.value_names import bodies_of, read_names

#: ONNX Runtime's own code and threads.
RUNTIME_BYTES = 64 << 20
#: Copies of the model file's content: its bytes, the messages of onnx and of ONNX Runtime, the tensors and their
#: reordered form, and the simulation's rounded copies. Sessions of 45 networks took 0.07 to 0.57 of the estimate
#: (benchmarks/bench_memory.py). That is no proof: scratch memory is only modelled for convolutions.
FILE_COPIES = 6
#: Copies of a constant that nodes compute: ONNX Runtime folds it as a message and a tensor, or recomputes it per run.
MADE_COPIES = 2
#: More copies while the session opens: weights of a convolution are reordered, as a message and as a tensor; constants
#: of other operators are packed. Measured on onnxruntime 1.23 and 1.30: one, two and four constants of 128 MiB took 5,
#: 7 and 11 times that size in convolutions, and 3 times in one product.
REORDERED_COPIES, PACKED_COPIES = 2, 1
#: ONNX Runtime's arena grows by powers of two and never shrinks.
ARENA = 2
#: onnx.TensorProto.DataType -> bits per element; other types count as 64.
BITS: Mapping[int, int] = {
    1: 32,
    2: 8,
    3: 8,
    4: 16,
    5: 16,
    6: 32,
    7: 64,
    9: 8,
    10: 16,
    11: 64,
    12: 32,
    13: 64,
    14: 64,
    15: 128,
    16: 16,
    17: 8,
    18: 8,
    19: 8,
    20: 8,
    21: 4,
    22: 4,
    23: 4,
}
FLOAT = 1
#: Most nodes of a model whose own functions are written out to be counted.
MOST_INLINED = 20_000
CONVOLUTIONS = ("Conv", "ConvTranspose")
#: Operators whose outputs differ from run to run.
RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"})
MIB = 1 << 20


@dataclass(frozen=True)
class SessionMemory:
    """The parts of the estimate, in bytes.

    Attributes:
        file_bytes: the model, with its weights. made_bytes: constants that its nodes compute.
        folded_bytes: further copies of these constants while the session opens.
        live_bytes: peak of the activations that exist at once, in the order of the nodes.
        scratch_bytes: the largest scratch memory of one operator, without its inputs and outputs.
        unknown: tensors of unknown size, which the estimate leaves out.
    """

    file_bytes: int
    made_bytes: int
    live_bytes: int
    scratch_bytes: int
    unknown: int = 0
    folded_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        stored = FILE_COPIES * self.file_bytes + MADE_COPIES * self.made_bytes + self.folded_bytes
        return RUNTIME_BYTES + stored + ARENA * (self.live_bytes + self.scratch_bytes)

    def __str__(self) -> str:
        unknown = f", and {self.unknown} tensors of unknown size" if self.unknown else ""
        return f"up to {max(1, round(self.total_bytes / MIB))} MiB of memory{unknown}"


def session_memory(model: Any, file_bytes: Optional[int] = None) -> SessionMemory:
    """The estimate for an onnx.ModelProto whose inputs have static sizes.

    Args:
        file_bytes: size of the model with its weights, if `model` lacks the payload of large tensors.
    """
    whole = with_inferred_shapes(_inlined(model), by_values=True)
    return _Walk(whole.graph, whole.opset_import).memory(model.ByteSize() if file_bytes is None else file_bytes)


def _inlined(model: Any) -> Any:
    """The model with its functions inlined, so that their tensors count; with too many calls their outputs have unknown size."""
    if not model.functions:
        return model
    calls: Dict[str, int] = {}
    # A file may hold a function before those that it calls.
    for _ in model.functions:
        before = calls
        calls = {f.name: sum(before.get(n.op_type, 1) for n in f.node) for f in model.functions}
        if calls == before or max(calls.values()) > MOST_INLINED:
            break
    if sum(calls.get(n.op_type, 1) for n in model.graph.node) <= MOST_INLINED:
        # onnx raises its own classes and RuntimeError; ONNX Runtime then says what is wrong with the model.
        with suppress(Exception):
            from onnx import inliner

            return inliner.inline_local_functions(model)
    without = deepcopy(model)
    # Inference would write them all out, which may take minutes.
    del without.functions[:]
    return without


class _Walk:
    """One pass over the nodes. A tensor exists from the node that writes it to the last node that reads it."""

    def __init__(self, graph: Any, opsets: Any, around: Optional[_Walk] = None) -> None:
        """Args:
        opsets: of the model. around: for the body of a node, the walk over the enclosing graph, whose tensors it reads.
        """
        self.graph, self.opsets = graph, opsets
        self.stored: Dict[str, Any] = dict(around.stored) if around is not None else {}
        self.values: Dict[str, Any] = dict(around.values) if around is not None else {}
        self.stored.update((i.name, i) for i in graph.initializer)
        self.values.update((v.name, v) for v in (*graph.input, *graph.value_info, *graph.output))
        self.bytes: Dict[str, int] = dict(around.bytes) if around is not None else {}
        self.dims: Dict[str, Sequence[int]] = dict(around.dims) if around is not None else {}
        self.constants: Set[str] = set(around.constants) if around is not None else set()
        self.made_names: Set[str] = set(around.made_names) if around is not None else set()
        self.unknown = self.made = 0
        self.dims.update((i.name, list(i.dims)) for i in graph.initializer)
        self.constants.update(i.name for i in graph.initializer)
        for value in (*graph.input, *graph.value_info, *graph.output):
            dims = _dims(value)
            if dims is not None:
                self.dims[value.name] = dims
                self.bytes[value.name] = tensor_bytes(dims, value.type.tensor_type.elem_type)
        for sparse in graph.sparse_initializer:
            self._made_dense(sparse.values.name, sparse)

    def memory(self, file_bytes: int) -> SessionMemory:
        read = [read_names(node) for node in self.graph.node]
        last_read = {name: i for i, names in enumerate(read) for name in names}
        outputs = {o.name for o in self.graph.output}
        live = sum(self.bytes.get(i.name, 0) for i in self.graph.input if i.name not in self.constants)
        most, scratch, folded, reordered = live, 0, 0, 0
        for i, node in enumerate(self.graph.node):
            if self._constant(node):
                continue
            inner, written = self._inner(node), sum(self._size(name) for name in set(node.output) if name)
            live += written
            # An If returns its branch's tensor without a copy; a Loop copies.
            beside = live - written if node.op_type == "If" else live
            most = max(most, live, *(beside + m.live_bytes for m in inner))
            scratch = max(scratch, self._scratch(node), *(m.scratch_bytes for m in inner))
            folded = max(folded, self._folded(node), *(m.folded_bytes for m in inner))
            reordered += self._largest_made(node) if node.op_type in CONVOLUTIONS else 0
            ended = {n for n in (*read[i], *node.output) if n and last_read.get(n, i) == i}
            live -= sum(self.bytes.get(n, 0) for n in ended - outputs - self.constants)
        return SessionMemory(file_bytes, self.made, most, scratch, self.unknown, folded + reordered)

    def _constant(self, node: Any) -> bool:
        """True if the node's outputs are the same in every run; records their size."""
        if node.op_type in RANDOM or any(n and n not in self.constants for n in node.input):
            return False
        if bodies_of(node):
            return False
        self.constants.update(o for o in node.output if o)
        sparse = [a.sparse_tensor for a in node.attribute if a.HasField("sparse_tensor")]
        if node.op_type == "Constant" and sparse and node.output:
            self._made_dense(node.output[0], sparse[0])
        elif node.op_type != "Constant":
            self.made += sum(self._size(o) for o in node.output if o)
            self.made_names.update(o for o in node.output if o)
        return True

    def _made_dense(self, name: str, sparse: Any) -> None:
        """ONNX Runtime stores a sparse constant with all its zeros."""
        self.constants.add(name)
        self.made_names.add(name)
        self.dims[name] = list(sparse.dims)
        self.bytes[name] = tensor_bytes(sparse.dims, sparse.values.data_type)
        self.made += self.bytes[name]

    def _inner(self, node: Any) -> List[SessionMemory]:
        """What the bodies of a node take while it runs. Constants that they compute are there all the time."""
        bodies = []
        for graph in bodies_of(node):
            body = _Walk(self._sized(graph), self.opsets, self)
            bodies.append(body.memory(0))
            self.made += body.made
            self.unknown += body.unknown
        return bodies

    def _sized(self, body: Any) -> Any:
        """The body with inferred shapes. The inference of the whole model shows it no constant of the graph around it."""
        import onnx

        sized = {v.name for v in (*body.value_info, *body.output) if _dims(v) is not None}
        if all(o in sized for node in body.node for o in node.output if o):
            return body
        model = onnx.ModelProto(ir_version=onnx.IR_VERSION, opset_import=self.opsets, graph=body)
        own = {v.name for v in (*body.input, *body.initializer)}
        read = {name for node in body.node for name in read_names(node)} - own - {o for node in body.node for o in node.output}
        model.graph.initializer.extend(t for name, t in self.stored.items() if name in read)
        model.graph.input.extend(v for name, v in self.values.items() if name in read and name not in self.stored)
        inferred = inferred_by_values(model)
        graph = body if inferred is None else inferred.graph
        # The enclosing graph's tensors are counted already.
        del graph.input[len(body.input) :]
        return graph

    def _largest_made(self, node: Any) -> int:
        """Bytes of the largest computed constant that the node reads."""
        return max((self.bytes.get(n, 0) for n in read_names(node) if n in self.made_names), default=0)

    def _folded(self, node: Any) -> int:
        """Bytes of the further copies of that constant while ONNX Runtime reorders or packs it."""
        return self._largest_made(node) * (REORDERED_COPIES if node.op_type in CONVOLUTIONS else PACKED_COPIES)

    def _size(self, name: str) -> int:
        self.unknown += name not in self.bytes
        return self.bytes.get(name, 0)

    def _scratch(self, node: Any) -> int:
        """Bytes of the scratch matrix of a transposed convolution, or of one that is not two-dimensional."""
        data, kernel = ([self.dims.get(name) for name in node.input[:2]] + [None, None])[:2]
        if node.op_type not in CONVOLUTIONS or not kernel or not data or len(data) < 3:
            return 0
        if node.op_type == "Conv" and len(data) == 4:
            return 0
        columns = data if node.op_type == "ConvTranspose" or not node.output else self.dims.get(node.output[0], data)
        return tensor_bytes([*kernel[1:], *columns[2:]], FLOAT)


def _dims(value: Any) -> Optional[List[int]]:
    """The sizes of a tensor; None where one is unknown."""
    kind = value.type.tensor_type
    if not kind.HasField("shape") or any(not d.HasField("dim_value") or d.dim_value < 0 for d in kind.shape.dim):
        return None
    return [d.dim_value for d in kind.shape.dim]


def tensor_bytes(dims: Sequence[int], element_type: int) -> int:
    """Bytes of a dense tensor of an onnx.TensorProto.DataType."""
    return -(-math.prod(dims) * BITS.get(element_type, 64) // 8)
