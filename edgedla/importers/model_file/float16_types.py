"""Converts a FLOAT model to FLOAT16, for strongly typed releases, where tensor types alone decide what runs in FP16.

A node computes in FLOAT16 unless ONNX's operator does not allow it, or the caller keeps it. Casts stand at borders only: at the
model's own inputs and outputs, and around what stays FLOAT. Integers, and inputs that an operator wants in FLOAT, as the scales of
Resize, are not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from edgedla.importers.model_file.float16_tensors import (
    CONSTANT_ATTRIBUTES,
    FLOAT,
    HALF,
    LARGEST,
    SMALLEST,
    constant_of,
    lost,
    to_float16,
)
from edgedla.importers.model_file.shape_inference import with_inferred_shapes
from edgedla.importers.model_file.value_names import bodies_of, read_names, rename
from edgedla.importers.operator_schema import DEFAULT_DOMAINS, SIZES, operator_schema

_QDQ = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))
#: Inputs that stay FLOAT though ONNX allows FLOAT16: (operator, index). A region of interest has the precision of the sizes.
_STAYS = frozenset((("Resize", 1), ("Resize", 2), ("Upsample", 1)))


@dataclass(frozen=True)
class Halved:
    """A model converted to FLOAT16.

    Attributes:
        model: onnx.ModelProto. nodes: how many of its nodes compute in FLOAT16, out of `of` that work on FLOAT data.
        kept: (node, why) for each that stays FLOAT. casts: number of Casts at borders.
        interface: a sentence for each input and output that changed its type.
        constants: constant of the result in FLOAT16 -> the FLOAT one that it was made of.
        clamped, vanished: constants with elements beyond FLOAT16's range, which become its largest; or below it, which become 0.
    """

    model: Any
    nodes: int
    of: int
    kept: Tuple[Tuple[str, str], ...]
    casts: int
    interface: Tuple[str, ...]
    constants: Mapping[str, str]
    clamped: Tuple[str, ...]
    vanished: Tuple[str, ...]

    @property
    def text(self) -> str:
        """A sentence on what was done."""
        parts = [f"{self.nodes} of {self.of} nodes compute in FP16, with {self.casts} Casts at borders"]
        if self.clamped:
            parts.append(f"weights beyond {LARGEST:.0f} are clamped in {_some(self.clamped)}")
        if self.vanished:
            parts.append(f"weights below {SMALLEST:.1g} become 0 in {_some(self.vanished)}")
        if self.kept:
            parts.append(f"FLOAT stay {_some([f'{name} ({why})' for name, why in self.kept])}")
        return "; ".join(parts)


def _some(names: Any, most: int = 3) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def in_float16(model: Any, keep: Mapping[str, str] = {}, own_ends: bool = True) -> Optional[Halved]:
    """A copy of an onnx.ModelProto in FLOAT16; None where it computes in FLOAT16 already, or has Q/DQ nodes, or no FLOAT data.

    Args:
        keep: label of a node (see `label_of`) -> why it stays FLOAT.
        own_ends: the model's inputs and outputs keep their types, by Casts; False: they become FLOAT16.
    """
    if any(node.op_type in _QDQ for node in model.graph.node):
        return None
    work = _Conversion(model, keep, own_ends)
    if not work.half or any(kind == HALF for name, kind in work.types.items() if name in work.live):
        return None
    return work.run()


def without_functions(model: Any) -> Any:
    """The onnx.ModelProto with the nodes of its own functions in place of their calls: inside, no type could be its own.

    As it is where onnx is older than 1.15. Functions that call functions multiply: import the model first, which limits them.
    """
    try:
        from onnx import inliner
    except ImportError:
        return model
    return inliner.inline_local_functions(model)


def label_of(node: Any) -> str:
    """What identifies a node: its first output."""
    return next((o for o in node.output if o), node.name)


def name_of(node: Any) -> str:
    """The node's name, which the converted model states: an unnamed one gets that of its output."""
    return node.name or f"{node.op_type}_{label_of(node)}"


class _Conversion:
    """Which values become FLOAT16, then the model with them.

    Attributes:
        types: of every tensor, as it comes. live: tensors that depend on the inputs' data. half: values made in FLOAT16.
        float_nodes: indices of nodes that stay FLOAT.
    """

    def __init__(self, model: Any, keep: Mapping[str, str], own_ends: bool) -> None:
        self.source, self.own_ends = model, own_ends
        self.opset = next((e.version for e in model.opset_import if e.domain in DEFAULT_DOMAINS), 1)
        inferred = with_inferred_shapes(model).graph
        values = (*inferred.input, *inferred.value_info, *inferred.output)
        self.types: Dict[str, int] = {v.name: v.type.tensor_type.elem_type for v in values}
        self.initializers = {t.name: t for t in model.graph.initializer}
        self.types.update((t.name, t.data_type) for t in model.graph.initializer)
        self.inputs = [v.name for v in model.graph.input if v.name not in self.initializers]
        self.outputs = {v.name for v in model.graph.output}
        self.live: Set[str] = set(self.inputs)
        self.half: Set[str] = set()
        self.constants: Dict[str, Any] = {}
        self.kept: List[Tuple[str, str]] = []
        self.float_nodes: Set[int] = set()
        self.of = self.nodes = 0
        for index, node in enumerate(model.graph.node):
            self._classify(index, node, keep)

    def _is_float(self, name: str) -> bool:
        return bool(name) and self.types.get(name) == FLOAT

    def _classify(self, index: int, node: Any, keep: Mapping[str, str]) -> None:
        if node.op_type == "Constant" and any(a.name in CONSTANT_ATTRIBUTES for a in node.attribute):
            if self._is_float(node.output[0]):
                self.constants[node.output[0]] = node
            return
        if node.op_type in SIZES or not self.live.intersection(read_names(node)):
            self.float_nodes.add(index)
            return
        self.live.update(o for o in node.output if o)
        if not any(map(self._is_float, (*node.input, *node.output))):
            return
        self.of += 1
        why = keep.get(label_of(node), "") or self._forbidden(node)
        if why:
            self.float_nodes.add(index)
            self.kept.append((name_of(node), why))
            return
        self.nodes += 1
        self.half.update(o for i, o in enumerate(node.output) if self._is_float(o) and _allows(self._formal(node, i, False)))

    def _formal(self, node: Any, index: int, is_input: bool) -> Tuple[str, AbstractSet[str]]:
        """(type of a formal input or output, the types that ONNX allows for it)."""
        schema = operator_schema(node.op_type, self.opset)
        formals = schema.inputs if is_input else schema.outputs
        formal = formals[min(index, len(formals) - 1)]
        allowed = {c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints}
        return formal.type_str, allowed.get(formal.type_str, frozenset((formal.type_str,)))

    def _forbidden(self, node: Any) -> str:
        """Why a node cannot compute in FLOAT16; "" where it can."""
        if node.domain not in DEFAULT_DOMAINS or operator_schema(node.op_type, self.opset) is None:
            return "its types are its own"
        if bodies_of(node):
            return "it has subgraphs"
        if any(name and name not in self.types for name in (*node.input, *node.output)):
            return "its types are not known"
        for index, name in enumerate(node.input):
            type_name, allowed = self._formal(node, index, True)
            if self._is_float(name) and "tensor(float16)" not in allowed and type_name != "tensor(float)":
                return f"operator set {self.opset} has no FLOAT16 for it"
        return ""

    def _takes_half(self, node: Any, index: int) -> bool:
        return (node.op_type, index) not in _STAYS and _allows(self._formal(node, index, True))

    def run(self) -> Halved:
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self.source)
        # Before IR 4 every constant is one of the inputs, which lose those that change their type.
        model.ir_version = max(model.ir_version, 4)
        graph = model.graph
        nodes = list(graph.node)
        del graph.node[:]
        self.taken = {*self.types, *self.initializers, *self.outputs, *(o for n in nodes for o in n.output)}
        self.made: List[Any] = []
        self.forms: Dict[Tuple[str, bool], str] = {}
        self.casts = 0
        self._open_ends(graph)
        self._name_constants(nodes)
        for index, node in enumerate(nodes):
            if node.output and node.output[0] in self.constants:
                continue
            self._write(node, index not in self.float_nodes)
        self._write_constants(graph)
        graph.node.extend(self.made)
        for value in graph.value_info:
            # Exporters on onnx-ir list the constants there too; ONNX Runtime believes the list.
            if self.forms.get((value.name, True), value.name if value.name in self.half else "") == value.name:
                value.type.tensor_type.elem_type = HALF
        interface = () if self.own_ends else self._turned_ends(graph)
        clamped, vanished = lost((n, t) for n, t in self._constant_tensors() if (n, True) in self.constant_forms)
        constants = {self.forms[name, True]: name for name, half in self.constant_forms if half}
        return Halved(model, self.nodes, self.of, tuple(self.kept), self.casts, interface, constants, clamped, vanished)

    def _open_ends(self, graph: Any) -> None:
        """Names of values whose FLOAT16 form is not their own: outputs of the model that stay FLOAT."""
        if not self.own_ends:
            self.half.update(name for name in self.inputs if self._is_float(name))
            return
        for name in self.outputs & self.half:
            self.forms[name, True] = self._fresh(f"{name}_fp16")

    def _name_constants(self, nodes: List[Any]) -> None:
        """The forms in which each constant is read, and their names: a constant that is read in one form keeps its own."""
        self.constant_forms: Set[Tuple[str, bool]] = {(name, False) for name in self.outputs}
        for index, node in enumerate(nodes):
            if index in self.float_nodes:
                self.constant_forms.update((name, False) for name in read_names(node))
            else:
                self.constant_forms.update((n, self._takes_half(node, i)) for i, n in enumerate(node.input) if self._is_float(n))
        known = {name for name in (*self.initializers, *self.constants) if self._is_float(name)}
        self.constant_forms = {form for form in self.constant_forms if form[0] in known}
        for name in sorted({name for name, half in self.constant_forms if half}):
            self.forms[name, True] = self._fresh(f"{name}_fp16") if (name, False) in self.constant_forms else name

    def _fresh(self, base: str) -> str:
        name, count = base, 1
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name

    def _write(self, node: Any, is_half: bool) -> None:
        """Appends the node with the forms of its inputs that it takes, and the Casts that make them."""
        import onnx

        new = onnx.NodeProto()
        new.CopyFrom(node)
        new.name = name_of(node)
        if node.op_type in SIZES:
            # The sizes are the same in both forms.
            new.input[0] = self._form(node.input[0], node.input[0] in self.half)
            self.made.append(new)
            return
        if not is_half:
            captured = {name: self._form(name, False) for name in sorted(read_names(node)) if self._is_float(name)}
            rename([new], {old: name for old, name in captured.items() if old != name})
            self.made.append(new)
            return
        for index, name in enumerate(node.input):
            if self._is_float(name):
                new.input[index] = self._form(name, self._takes_half(node, index))
        for entry in new.attribute:
            if node.op_type == "Cast" and entry.name == "to" and entry.i == FLOAT:
                entry.i = HALF
        own = [name for name in node.output if name in self.half]
        for index, name in enumerate(node.output):
            new.output[index] = self.forms.get((name, True), name) if name in self.half else name
        if node.op_type == "Cast" and self._is_float(node.input[0]) and own:
            # FLOAT to FLOAT: nothing is left to convert.
            new.op_type = "Identity"
            del new.attribute[:]
        self.made.append(new)
        for name in own:
            if name in self.outputs and self.own_ends:
                self._cast(self.forms[name, True], name, FLOAT)

    def _form(self, name: str, half: bool) -> str:
        """The name of a FLOAT value in FLOAT16 or FLOAT; the Cast that makes it is written where it is needed first."""
        if name in self.initializers or name in self.constants:
            return self.forms[name, True] if half else name
        if (name in self.half) == half and (name, True) not in self.forms:
            return name
        if (name, half) not in self.forms:
            if not half and name in self.outputs and self.own_ends:
                return name
            form = self.forms[name, half] = self._fresh(f"{name}_fp16" if half else f"{name}_fp32")
            self._cast(name, form, HALF if half else FLOAT)
        return self.forms[name, half]

    def _cast(self, source: str, result: str, to: int) -> None:
        from onnx import helper

        self.casts += 1
        self.made.append(helper.make_node("Cast", [source], [result], name=self._fresh(f"{result}_cast"), to=to))

    def _write_constants(self, graph: Any) -> None:
        """Every constant in the forms that are read; one that nobody reads any more goes."""
        import onnx

        written = []
        for name, tensor in self._constant_tensors():
            if (name, False) in self.constant_forms:
                written.append(tensor)
            if (name, True) in self.constant_forms:
                half = onnx.TensorProto()
                half.CopyFrom(to_float16(tensor))
                half.name = self.forms[name, True]
                written.append(half)
        others = [t for t in self.source.graph.initializer if t.data_type != FLOAT]
        del graph.initializer[:]
        graph.initializer.extend([*others, *written])
        values = [v for v in graph.input if v.name not in self.initializers or (v.name, True) not in self.forms]
        del graph.input[:]
        graph.input.extend(values)

    def _constant_tensors(self) -> Iterator[Tuple[str, Any]]:
        for tensor in self.source.graph.initializer:
            if tensor.data_type == FLOAT:
                yield tensor.name, tensor
        for name, node in self.constants.items():
            yield name, constant_of(node, name)

    def _turned_ends(self, graph: Any) -> Tuple[str, ...]:
        sentences = []
        for value, verb in (*((v, "takes") for v in graph.input), *((v, "gives") for v in graph.output)):
            if value.name in self.half:
                value.type.tensor_type.elem_type = HALF
                sentences.append(f"{value.name} {verb} FLOAT16, before FLOAT")
        return tuple(sentences)


def _allows(formal: Tuple[str, AbstractSet[str]]) -> bool:
    return "tensor(float16)" in formal[1]
