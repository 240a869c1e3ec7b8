"""Plugins in a model: operators that TensorRT takes from a library and that ONNX Runtime cannot run."""

from __future__ import annotations

from typing import Any, Set, Tuple

from edgedla.fixes.network.subgraphs import subgraphs
from edgedla.fixes.site import Node
from edgedla.importers.model_file.plugins import RUN_DOMAINS, is_of_onnx
from edgedla.importers.operator_schema import DEFAULT_DOMAINS


def is_plugin(node: Node, model: Any) -> bool:
    """Whether an onnx_ir node is one."""
    if node.domain in DEFAULT_DOMAINS:
        return not is_of_onnx(node.op_type)
    function = model.functions.get((node.domain, node.op_type, node.overload))
    if function is not None:
        return any(is_plugin(inner, model) for inner in function.all_nodes())
    return node.domain not in RUN_DOMAINS


def plugin_names(model: Any) -> Tuple[str, ...]:
    """The operators of its plugins, sorted."""
    return tuple(sorted({n.op_type for n in model.graph.all_nodes() if is_plugin(n, model)}))


def at_or_behind_plugins(model: Any) -> Set[Any]:
    """The nodes of the main graph that ONNX Runtime cannot reach: plugins, nodes that hold one, and all that read their results."""
    cut: Set[Any] = set()
    for node in model.graph:
        inside = [node, *(n for body in subgraphs(node) for n in body.all_nodes())]
        makers = {v.producer() for n in inside for v in n.inputs if v is not None}
        if makers & cut or any(is_plugin(n, model) for n in inside):
            cut.add(node)
    return cut
