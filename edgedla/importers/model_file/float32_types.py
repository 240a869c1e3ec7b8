"""Converts models that compute in FLOAT16, BFLOAT16 or DOUBLE to FLOAT.

INT8 scales are measured on FLOAT tensors, and the simulation rounds FLOAT tensors, so other models are converted first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from edgedla.importers.model_file.tensor_types import FLOAT, tensor_types
from edgedla.importers.model_file.value_names import bodies_of, last_name, read_names, rename
from edgedla.importers.operator_schema import DEFAULT_DOMAINS, SIZES

#: onnx.TensorProto.DataType -> its name.
TURNED: Dict[int, str] = {10: "FLOAT16", 16: "BFLOAT16", 11: "DOUBLE"}
#: Attributes of ONNX operators that name the type of a result or of an accumulator.
TYPE_ATTRIBUTES = frozenset("to dtype output_datatype output_dtype stash_type precision softmax_precision".split())
#: Operators without arithmetic: they change types or make constants, so their type is not one the network computes in.
_NO_ARITHMETIC = frozenset("Cast CastLike Constant ConstantOfShape Identity".split())
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class OwnTypes:
    """The part of a model that computes in types to convert.

    Attributes:
        names: the types, most nodes first. nodes: number of nodes with such a result, out of `of`. first: name of the
            first such node.
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
        """A sentence about the conversion."""
        return f"types converted to FLOAT ({self.text})"


def own_types(model: Any) -> Optional[OwnTypes]:
    """The types to convert in an onnx.ModelProto; None if all values that depend on its inputs are FLOAT.

    Casts directly at the inputs do not count.
    """
    types = tensor_types(model)
    constants = {t.name for t in model.graph.initializer}
    live = {v.name for v in model.graph.input} - constants
    counts: Dict[str, int] = {}
    first, nodes, of = "", 0, 0
    for node in model.graph.node:
        if node.op_type in SIZES or not live.intersection(read_names(node)):
            continue
        live.update(node.output)
        if node.op_type in _NO_ARITHMETIC:
            continue
        of += 1
        types_of_node = {TURNED[types[o][0]] for o in node.output if o in types and types[o][0] in TURNED}
        for name in types_of_node:
            counts[name] = counts.get(name, 0) + 1
        if types_of_node:
            nodes, first = nodes + 1, first or node.name or node.op_type
    if not nodes:
        return None
    return OwnTypes(tuple(sorted(counts, key=lambda name: -counts[name])), nodes, of, first)


def in_float32(model: Any) -> Tuple[Any, Tuple[str, ...]]:
    """(an onnx.ModelProto in FLOAT, a copy; a sentence per input and output whose type changed)."""
    turned = type(model)()
    turned.CopyFrom(model)
    interface = turn_types(turned)
    drop_casts(turned)
    return turned, interface


def lacks_half(model: Any) -> bool:
    """Whether an onnx.ModelProto computes in BFLOAT16 or DOUBLE, and nowhere in FLOAT16: in FLOAT it can become FLOAT16."""
    own = own_types(model)
    return own is not None and "FLOAT16" not in own.names


def as_float32(elements: np.ndarray) -> np.ndarray:
    """The elements in FP32. A finite DOUBLE beyond FP32's range becomes the largest FP32 number, not infinity."""
    if elements.dtype == np.float64:
        elements = np.where(np.isfinite(elements), np.clip(elements, -_LARGEST, _LARGEST), elements)
    return np.asarray(elements, dtype=np.float32, order="C")


def to_float32(tensor: Any) -> None:
    """Converts the elements of an onnx.TensorProto to FLOAT, in place; of one without them, as in a stripped model, the type alone."""
    import onnx
    from onnx import numpy_helper

    elsewhere = tensor.data_location == onnx.TensorProto.EXTERNAL
    if elsewhere or not (tensor.raw_data or tensor.int32_data or tensor.double_data):
        tensor.data_type = FLOAT
        return
    turned = numpy_helper.from_array(as_float32(numpy_helper.to_array(tensor)), tensor.name)
    turned.doc_string = tensor.doc_string
    tensor.CopyFrom(turned)


def turn_types(model: Any) -> Tuple[str, ...]:
    """Converts every FLOAT16, BFLOAT16 and DOUBLE of an onnx.ModelProto to FLOAT, in place: values, constants, casts,
    subgraphs and functions.

    Returns:
        A sentence per input and output whose type changed.
    """
    constants = {t.name for t in model.graph.initializer}
    ends = [(v, "takes") for v in model.graph.input if v.name not in constants]
    ends += [(v, "gives") for v in model.graph.output]
    interface = [
        f"{v.name} {verb} FLOAT, before {TURNED[v.type.tensor_type.elem_type]}"
        for v, verb in ends
        if v.type.tensor_type.elem_type in TURNED
    ]
    _graph(model.graph)
    for function in model.functions:
        for node in function.node:
            _node(node)
        for value in getattr(function, "value_info", ()):
            _type(value.type)
    return tuple(interface)


def _graph(graph: Any) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        _type(value.type)
    for tensor in (*graph.initializer, *(s.values for s in graph.sparse_initializer)):
        if tensor.data_type in TURNED:
            to_float32(tensor)
    for node in graph.node:
        _node(node)


def _type(kind: Any) -> None:
    """Converts a TypeProto of a tensor, or of a sequence, map or optional of tensors."""
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
        if entry.name in TYPE_ATTRIBUTES and node.domain in DEFAULT_DOMAINS and entry.i in TURNED:
            entry.i = FLOAT
        for tensor in (entry.t, *entry.tensors, entry.sparse_tensor.values, *(s.values for s in entry.sparse_tensors)):
            if tensor.data_type in TURNED:
                to_float32(tensor)
        for kind in (entry.tp, *entry.type_protos):
            _type(kind)
    for body in bodies_of(node):
        _graph(body)


def drop_casts(model: Any) -> int:
    """Removes FLOAT to FLOAT casts from the main graph, in place; returns how many. Inputs and outputs keep names."""
    types, graph = tensor_types(model), model.graph
    of_type = {t.name: t.data_type for t in graph.initializer}
    of_type.update((name, kind) for name, (kind, _) in types.items())
    outputs = {o.name for o in graph.output}
    made = {o for node in graph.node for o in node.output}
    renamed: Dict[str, str] = {}
    dropped: List[Any] = []
    for node in graph.node:
        if node.op_type != "Cast" or node.domain not in DEFAULT_DOMAINS or of_type.get(node.input[0]) != FLOAT:
            continue
        if next((a.i for a in node.attribute if a.name == "to"), 0) != FLOAT:
            continue
        source, result = last_name(renamed, node.input[0]), node.output[0]
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
    rename(graph.node, renamed)
    return len(dropped)
