"""Models that compute in FLOAT16, BFLOAT16 or DOUBLE by their own types, and the same in FLOAT.

INT8 scales are measured on FLOAT tensors, and the simulation rounds those: such a model has to be turned first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import numpy as np

from edgedla.quantization.tensor_types import FLOAT, tensor_types

#: onnx.TensorProto.DataType -> its name.
TURNED: Dict[int, str] = {10: "FLOAT16", 16: "BFLOAT16", 11: "DOUBLE"}
#: Attributes of ONNX's operators that name the type of a result, or that sums are kept in.
TYPE_ATTRIBUTES = frozenset("to dtype output_datatype output_dtype stash_type precision softmax_precision".split())
#: Only change types or bring constants: no network computes in a type because of them.
_NO_ARITHMETIC = frozenset("Cast CastLike Constant ConstantOfShape Identity".split())
#: What is worked out of sizes is no activation: exporters do that in DOUBLE.
_SIZES = frozenset(("Shape", "Size"))
_DEFAULT_DOMAINS = ("", "ai.onnx")
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class OwnTypes:
    """What of a model computes in types that are turned.

    Attributes:
        names: of the types, most nodes first. nodes: how many nodes have such a result, `of` all. first: name of the first.
    """

    names: Tuple[str, ...]
    nodes: int
    of: int
    first: str

    @property
    def text(self) -> str:
        return f"{self.nodes} of {self.of} nodes compute in {' and '.join(self.names)}, first {self.first!r}"

    @property
    def turned(self) -> str:
        """What was done about it."""
        return f"types converted to FLOAT ({self.text})"


def own_types(model: Any) -> Optional[OwnTypes]:
    """Of an onnx.ModelProto; None where all that depends on its inputs is FLOAT, also behind casts at them."""
    types = tensor_types(model)
    constants = {t.name for t in model.graph.initializer}
    live = {v.name for v in model.graph.input} - constants
    counts: Dict[str, int] = {}
    first, nodes, of = "", 0, 0
    for node in model.graph.node:
        if node.op_type in _SIZES or not live.intersection(read_names(node)):
            continue
        live.update(node.output)
        if node.op_type in _NO_ARITHMETIC:
            continue
        of += 1
        found = {TURNED[types[o][0]] for o in node.output if o in types and types[o][0] in TURNED}
        for name in found:
            counts[name] = counts.get(name, 0) + 1
        if found:
            nodes, first = nodes + 1, first or node.name or node.op_type
    if not nodes:
        return None
    return OwnTypes(tuple(sorted(counts, key=lambda name: -counts[name])), nodes, of, first)


def as_float32(elements: np.ndarray) -> np.ndarray:
    """What is finite stays finite: a DOUBLE may be beyond FLOAT."""
    if elements.dtype == np.float64:
        elements = np.where(np.isfinite(elements), np.clip(elements, -_LARGEST, _LARGEST), elements)
    return np.asarray(elements, dtype=np.float32, order="C")


def to_float32(tensor: Any) -> None:
    """The elements of an onnx.TensorProto in FLOAT, in place."""
    from onnx import numpy_helper

    turned = numpy_helper.from_array(as_float32(numpy_helper.to_array(tensor)), tensor.name)
    turned.doc_string = tensor.doc_string
    tensor.CopyFrom(turned)


def turn_types(model: Any, elements: Callable[[Any], None] = to_float32) -> Tuple[str, ...]:
    """Every FLOAT16, BFLOAT16 and DOUBLE of an onnx.ModelProto becomes FLOAT, in place: values, constants, casts, subgraphs and
    functions.

    Args:
        elements: turns an initializer.

    Returns:
        What is another type now at the inputs and outputs, a sentence each.
    """
    constants = {t.name for t in model.graph.initializer}
    ends = [(v, "takes") for v in model.graph.input if v.name not in constants]
    ends += [(v, "gives") for v in model.graph.output]
    interface = [
        f"{v.name} {verb} FLOAT, before {TURNED[v.type.tensor_type.elem_type]}"
        for v, verb in ends
        if v.type.tensor_type.elem_type in TURNED
    ]
    _graph(model.graph, elements)
    for function in model.functions:
        for node in function.node:
            _node(node)
        for value in getattr(function, "value_info", ()):
            _type(value.type)
    return tuple(interface)


def _graph(graph: Any, elements: Callable[[Any], None]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        _type(value.type)
    for tensor in (*graph.initializer, *(s.values for s in graph.sparse_initializer)):
        if tensor.data_type in TURNED:
            elements(tensor)
    for node in graph.node:
        _node(node)


def _type(kind: Any) -> None:
    """A TypeProto: of a tensor, or of what holds tensors."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        inner = getattr(kind, which)
        if inner.elem_type in TURNED:
            inner.elem_type = FLOAT
    elif which in ("sequence_type", "optional_type"):
        _type(getattr(kind, which).elem_type)
    elif which == "map_type":
        _type(kind.map_type.value_type)


def _node(node: Any) -> None:
    for entry in node.attribute:
        if entry.name in TYPE_ATTRIBUTES and node.domain in _DEFAULT_DOMAINS and entry.i in TURNED:
            entry.i = FLOAT
        for tensor in (entry.t, *entry.tensors, entry.sparse_tensor.values, *(s.values for s in entry.sparse_tensors)):
            if tensor.data_type in TURNED:
                to_float32(tensor)
        for kind in (entry.tp, *entry.type_protos):
            _type(kind)
        for body in (entry.g, *entry.graphs):
            _graph(body, to_float32)


def drop_casts(model: Any) -> int:
    """Takes casts from FLOAT to FLOAT out of the main graph, in place; returns how many. Inputs and outputs keep their names."""
    types, graph = tensor_types(model), model.graph
    of_type = {t.name: t.data_type for t in graph.initializer}
    of_type.update((name, kind) for name, (kind, _) in types.items())
    outputs = {o.name for o in graph.output}
    made = {o for node in graph.node for o in node.output}
    renamed: Dict[str, str] = {}
    dropped: List[Any] = []
    for node in graph.node:
        if node.op_type != "Cast" or node.domain not in _DEFAULT_DOMAINS or of_type.get(node.input[0]) != FLOAT:
            continue
        if next((a.i for a in node.attribute if a.name == "to"), 0) != FLOAT:
            continue
        source, result = _last(renamed, node.input[0]), node.output[0]
        if result not in outputs:
            renamed[result] = source
        elif source in made and source not in outputs:
            renamed[source] = result
        else:
            node.op_type = "Identity"
            del node.attribute[:]
            continue
        dropped.append(node)
    for node in dropped:
        graph.node.remove(node)
    _rename(graph.node, renamed)
    return len(dropped)


def _last(renamed: Dict[str, str], name: str) -> str:
    while name in renamed:
        name = renamed[name]
    return name


def _rename(nodes: Iterable[Any], renamed: Dict[str, str]) -> None:
    """Also in bodies, which read values from outside by name."""
    for node in nodes:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = _last(renamed, name)
        for entry in node.attribute:
            for body in (entry.g, *entry.graphs):
                _rename(body.node, renamed)
                for value in body.output:
                    value.name = _last(renamed, value.name)


def read_names(node: Any) -> Set[str]:
    """Names that a node reads, in its bodies too."""
    names = {name for name in node.input if name}
    for entry in node.attribute:
        for body in (entry.g, *entry.graphs):
            inside = {v.name for v in (*body.input, *body.initializer)} | {o for n in body.node for o in n.output}
            asked = {name for n in body.node for name in read_names(n)} | {o.name for o in body.output}
            names |= asked - inside
    return names
