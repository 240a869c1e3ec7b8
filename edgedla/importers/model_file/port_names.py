"""Cleans up after an exporter: numbers as names of inputs and outputs, repeated names of nodes, and Identity nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any, Container, Dict, Iterator, List, Mapping, Sequence, Set

from edgedla.importers.model_file.value_names import graphs_in
from edgedla.importers.operator_schema import DEFAULT_DOMAINS


def name_ports(model: Any, inputs: Mapping[str, str], outputs: Sequence[str]) -> None:
    """Renames the inputs and outputs of an onnx.ModelProto, in its nodes and their subgraphs too; nothing else changes.

    Args:
        inputs: present name -> new name; inputs that are not listed keep theirs.
        outputs: new names in the model's order; ignored unless there is one per output.
            A name that is used twice gets a number.
    """
    graph = model.graph
    present = [value.name for value in graph.input]
    renamed = dict(zip(present, _apart([inputs.get(name, name) for name in present], set())))
    if len(outputs) == len(graph.output):
        output_names = _apart(outputs, set(renamed.values()))
        for value, name in zip(graph.output, output_names):
            if value.name in renamed:
                # The output is also an input, or one value has two output names.
                graph.node.add(op_type="Identity", name=f"{name}/Identity", input=[value.name], output=[name])
                value.name = name
            renamed[value.name] = name
    every = set(tensor_names(graph))
    chosen = set(renamed.values())
    for name in sorted((every & chosen) - set(renamed)):
        # A value inside the network has the name already.
        renamed[name] = free_name(name, every | chosen)
    _rename(graph, renamed)


def without_identities(model: Any) -> None:
    """Removes Identity nodes from an onnx.ModelProto; inputs, outputs and their names stay."""
    graph = model.graph
    ports = {value.name for value in (*graph.input, *graph.output)}
    made = {name for node in graph.node for name in node.output}
    renamed: Dict[str, str] = {}
    remaining = []
    for node in graph.node:
        source = renamed.get(node.input[0], node.input[0]) if node.op_type == "Identity" else ""
        if not source or node.domain not in DEFAULT_DOMAINS:
            remaining.append(node)
        elif node.output[0] not in ports:
            renamed[node.output[0]] = source
        elif source in made and source not in ports:
            # The node that writes the value writes the output instead.
            renamed.update((name, node.output[0]) for name, value in list(renamed.items()) if value == source)
            renamed[source] = node.output[0]
            ports.add(source)
        else:
            remaining.append(node)
    del graph.node[:]
    graph.node.extend(remaining)
    _rename(graph, renamed)
    described = {value.name: value for value in graph.value_info if value.name not in ports}
    del graph.value_info[:]
    graph.value_info.extend(described.values())


def _apart(names: Sequence[str], used_names: Set[str]) -> List[str]:
    """The names, made distinct from each other and from `used_names`."""
    made: List[str] = []
    for name in names:
        made.append(free_name(name, {*used_names, *made}))
    return made


def free_name(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it where it is taken."""
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def free_prefix(word: str, graph: Any) -> str:
    """WORD/, with a number behind the word where a tensor's name in the graph begins so: what begins with it is new."""
    names = set(tensor_names(graph))
    number, prefix = 0, f"{word}/"
    while any(name.startswith(prefix) for name in names):
        number += 1
        prefix = f"{word}_{number}/"
    return prefix


#: Operators with any number of outputs: of these ONNX Runtime needs every name. It crashes at a Split or Loop without one.
_ANY_OUTPUTS = frozenset(("If", "Loop", "Scan", "Split"))


def name_unread_outputs(model: Any) -> bool:
    """Names outputs that a model leaves out because nothing reads them, in subgraphs and functions too; True for any."""
    scopes = [inner for outer in (model.graph, *model.functions) for inner in graphs_in(outer)]
    nodes = [n for inner in scopes for n in inner.node if n.op_type in _ANY_OUTPUTS and "" in n.output]
    if not nodes:
        return False
    taken = {name for inner in scopes for n in inner.node for name in (*n.input, *n.output)} | set(tensor_names(model.graph))
    for node in nodes:
        for i, name in enumerate(node.output):
            if not name:
                node.output[i] = free_name(f"{node.name or node.op_type}/unread", taken)
                taken.add(node.output[i])
    return True


def drop_repeated_node_names(model: Any) -> bool:
    """Takes names away that several nodes of one graph have, which ONNX Runtime refuses; True for any. TensorRT numbers them."""
    repeated = False
    for graph in graphs_in(model.graph):
        counts = Counter(node.name for node in graph.node if node.name)
        for node in graph.node:
            if counts[node.name] > 1:
                node.name, repeated = "", True
    return repeated


def tensor_names(graph: Any) -> Iterator[str]:
    """The names of all tensors, in subgraphs too; some more than once."""
    for inner in graphs_in(graph):
        for node in inner.node:
            yield from (*node.input, *node.output)
        yield from (v.name for v in (*inner.input, *inner.output, *inner.initializer, *inner.value_info))
        yield from (sparse.values.name for sparse in inner.sparse_initializer)


def _rename(graph: Any, renamed: Dict[str, str]) -> None:
    for inner in graphs_in(graph):
        for node in inner.node:
            for values in (node.input, node.output):
                for i, value in enumerate(values):
                    values[i] = renamed.get(value, value)
        for value in (*inner.input, *inner.output, *inner.initializer, *inner.value_info):
            value.name = renamed.get(value.name, value.name)
        for sparse in inner.sparse_initializer:
            sparse.values.name = renamed.get(sparse.values.name, sparse.values.name)
        for annotation in inner.quantization_annotation:
            annotation.tensor_name = renamed.get(annotation.tensor_name, annotation.tensor_name)
