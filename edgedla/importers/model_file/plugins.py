"""Plugins: operators that TensorRT takes from a library and ONNX Runtime cannot run, and the part of a model in front of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Iterator, List, NamedTuple, Optional, Set, Tuple

from edgedla.errors import ModelError
from edgedla.importers.model_file.value_names import bodies_of, graphs_in
from edgedla.importers.operator_schema import DEFAULT_DOMAINS

#: Other domains whose operators ONNX Runtime has.
RUN_DOMAINS = frozenset({"com.microsoft", "ai.onnx.ml"})


class Front(NamedTuple):
    """The part of a model that needs no plugin.

    Attributes:
        model: onnx.ModelProto. Its outputs are those of the whole model that it reaches, then the tensors that the rest reads.
        plugins: the operators of the plugins, sorted. handed_over: names of the tensors that the rest reads.
        left_out: number of nodes in the rest.
    """

    model: Any
    plugins: Tuple[str, ...]
    handed_over: Tuple[str, ...]
    left_out: int


@lru_cache(maxsize=None)
def is_of_onnx(operator: str) -> bool:
    """Exporters write some plugins, as EfficientNMS_TRT, into ONNX's own domain."""
    from onnx import defs

    return bool(defs.has(operator))


def plugin_names(model: Any) -> Tuple[str, ...]:
    """The operators of an onnx.ModelProto's plugins, sorted."""
    functions = {(f.domain, f.name): f for f in model.functions}
    return tuple(sorted({name for node in model.graph.node for name in _plugins(node, functions, ())}))


def part_in_front(model: Any) -> Optional[Front]:
    """The part of an onnx.ModelProto that ONNX Runtime reaches; None if there is no plugin.

    Raises:
        ModelError: nothing comes before the plugins.
    """
    from edgedla.importers.model_file.shape_inference import with_inferred_shapes

    plugins = plugin_names(model)
    if not plugins:
        return None
    functions = {(f.domain, f.name): f for f in model.functions}
    reached: List[Any] = []
    cut: Set[str] = set()
    read: List[str] = []
    for node in model.graph.node:
        inputs = [name for inner in _nodes_of(node) for name in inner.input if name]
        if cut.isdisjoint(inputs) and not any(_plugins(node, functions, ())):
            reached.append(node)
        else:
            cut.update(node.output)
            read += inputs
    made = {name for node in reached for name in node.output if name}
    handed_over = tuple(name for name in dict.fromkeys(read) if name in made)
    if not handed_over:
        raise ModelError(
            f"nothing comes before {', '.join(plugins)}, which ONNX Runtime lacks",
            hint="`edgedla help plugins` says what works without ONNX Runtime",
        )
    types = {v.name: v for v in with_inferred_shapes(model).graph.value_info}
    front = type(model)()
    front.CopyFrom(model)
    del front.graph.node[:], front.graph.output[:], front.graph.value_info[:]
    front.graph.node.extend(reached)
    outputs = [v for v in model.graph.output if v.name in made]
    front.graph.output.extend(outputs)
    known = {v.name for v in outputs}
    for name in handed_over:
        if name not in known:
            front.graph.output.add(name=name).CopyFrom(types.get(name, type(model.graph.output[0])(name=name)))
    front.graph.value_info.extend(v for v in model.graph.value_info if v.name in made)
    return Front(front, plugins, handed_over, len(model.graph.node) - len(reached))


def _plugins(node: Any, functions: Any, inside: Tuple[Any, ...]) -> Iterator[str]:
    """The plugins at a node: itself, or in its subgraphs and its function."""
    for inner in _nodes_of(node):
        key = (inner.domain, inner.op_type)
        if key in functions and key not in inside:
            for called in functions[key].node:
                yield from _plugins(called, functions, (*inside, key))
        elif inner.domain in DEFAULT_DOMAINS:
            if not is_of_onnx(inner.op_type):
                yield inner.op_type
        elif key not in functions and inner.domain not in RUN_DOMAINS:
            yield inner.op_type


def _nodes_of(node: Any) -> Iterator[Any]:
    """The node, and those of its subgraphs."""
    yield node
    for body in bodies_of(node):
        yield from (inner for graph in graphs_in(body) for inner in graph.node)
