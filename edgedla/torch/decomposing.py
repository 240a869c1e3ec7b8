"""Decompositions for PyTorch's dynamo exporter that trace each distinct call once; PyTorch would trace the whole network.

A network repeats few calls (the 53 batch normalizations of ResNet-50 have 12 forms), so this takes a tenth of the time.
Any graph that may not be safe is left to PyTorch, with PyTorch's own result.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Set, Tuple

import torch
from torch import fx

from edgedla.torch.calls import tensors_in

_FUNCTIONAL_KEYS = ("val", "tensor_meta")


class _Unknown(Exception):
    """A graph that is left to PyTorch."""


def decompose_once(program: Any) -> Any:
    """The torch.export.ExportedProgram with a `run_decompositions` that traces each distinct call once.

    This changes the program's own graph: use the program for one export only.
    """
    whole = program.run_decompositions

    def run_decompositions(table: Optional[Mapping[Any, Any]] = None, **options: Any) -> Any:
        if table is None or options:
            return whole(table, **options)
        try:
            parts = _parts(program, table)
        except Exception:
            # Nothing has been changed yet, and PyTorch reports what is wrong with the graph.
            return whole(table)
        _replace(program, parts)
        return program

    program.run_decompositions = run_decompositions
    return program


def _parts(program: Any, table: Mapping[Any, Any]) -> Dict[fx.Node, Any]:
    """Node -> its replacement, a graph or a function without side effects; changes nothing yet.

    Raises:
        _Unknown: a subgraph, a value without a size, or an in-place write to aliased memory.
    """
    default_table = set(torch.export.default_decompositions())
    aliased = _Aliases()
    forms: Dict[Any, Tuple[Optional[fx.Graph], List[int]]] = {}
    parts: Dict[fx.Node, Any] = {}
    for node in program.graph.nodes:
        if node.op == "get_attr":
            raise _Unknown
        if node.op != "call_function":
            continue
        function = node.target
        if not isinstance(function, torch._ops.OpOverload):
            if node.target.__name__ != "getitem":
                raise _Unknown
            aliased.join(node, node.args[0])
            continue
        if function._schema.is_mutable:
            parts[node] = _without_writing(node, aliased, table)
            continue
        composite = function.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
        traced = function in table or (composite and function not in default_table)
        if not (traced or composite or any(a.alias_info is not None for a in function._schema.arguments)):
            continue
        key = _form(node)
        if key not in forms:
            forms[key] = _traced(node, table) if traced else None, _shared(node)
        part, shared = forms[key]
        for i in shared:
            aliased.join(node, node.all_input_nodes[i])
        if part is not None:
            parts[node] = part
            several = not isinstance(next(n for n in part.nodes if n.op == "output").args[0], fx.Node)
            if several and any(getattr(u.target, "__name__", "") != "getitem" for u in node.users):
                raise _Unknown
    return parts


class _Aliases:
    """Which nodes may share memory."""

    def __init__(self) -> None:
        self.group: Dict[fx.Node, Set[fx.Node]] = {}

    def join(self, a: fx.Node, b: Any) -> None:
        both = self.group.get(a, {a}) | self.group.get(b, {b})
        for node in both:
            self.group[node] = both

    def alone(self, node: fx.Node) -> bool:
        return len(self.group.get(node, {node})) == 1


def _without_writing(node: fx.Node, aliased: _Aliases, table: Mapping[Any, Any]) -> Any:
    """The function without side effects (relu for relu_), if the memory that is written has no alias."""
    name, _, overload = str(node.target.name()).partition("::")[2].partition(".")  # type: ignore[union-attr]
    written = node.args[0]
    packet = getattr(torch.ops.aten, name[:-1], None) if name.endswith("_") else None
    function = getattr(packet, overload or "default", None)
    if function is None or function in table or not isinstance(written, fx.Node):
        raise _Unknown
    if written.op != "call_function" or not aliased.alone(written):
        raise _Unknown
    if function._schema.is_mutable or _sized(node) != _sized(written):
        raise _Unknown
    return function


def _form(node: fx.Node) -> Tuple[Any, ...]:
    """Everything that a decomposition may depend on; it never depends on tensor values."""
    described = fx.map_arg((node.args, node.kwargs), _sized)
    return (node.target, repr(described))


def _sized(node: Any) -> Any:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or any(not isinstance(d, int) for d in (*value.shape, *value.stride())):
        raise _Unknown
    return tuple(value.shape), value.stride(), str(value.dtype), str(value.device)


def _called(node: fx.Node, values: Iterable[Any]) -> Any:
    """The node's function, called on these values instead of its input nodes."""
    value_of = dict(zip(node.all_input_nodes, values))
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: value_of[n])
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _shared(node: fx.Node) -> List[int]:
    """The input nodes that share memory with the result; eval-mode Dropout, for example, returns its input."""
    values = [n.meta["val"] for n in node.all_input_nodes]
    memory = [_memory(v) for v in values]
    results = {_memory(t) for t in tensors_in(_called(node, values))}
    return [i for i, one in enumerate(memory) if one in results]


def _memory(tensor: Any) -> Any:
    return tensor.untyped_storage()._cdata


def _traced(node: fx.Node, table: Mapping[Any, Any]) -> fx.Graph:
    """The call decomposed by the table: a graph with one placeholder per input node."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def call(*tensors: Any) -> Any:
        return _called(node, tensors)

    graph: fx.Graph = make_fx(call, decomposition_table=dict(table))(
        *(n.meta["val"] for n in node.all_input_nodes)
    ).graph
    for inner in graph.nodes:
        mutable = isinstance(inner.target, torch._ops.OpOverload) and inner.target._schema.is_mutable
        if inner.op == "get_attr" or mutable or inner.target in table:
            raise _Unknown
    graph.eliminate_dead_code()
    return graph


def _replace(program: Any, parts: Mapping[fx.Node, Any]) -> None:
    graph = program.graph
    for node, part in parts.items():
        with graph.inserting_before(node):
            if isinstance(part, fx.Graph):
                result = _copied(graph, node, part)
            else:
                result = graph.create_node("call_function", part, node.args, node.kwargs, _name(part))
                result.meta = dict(node.meta)
                # Later readers of the written value read the result instead.
                for user in [u for u in node.args[0].users if node < u]:
                    user.replace_input_with(node.args[0], result)
        pairs = [(node, result)]
        if not isinstance(result, fx.Node):
            pairs = [(user, result[user.args[1]]) for user in list(node.users)]
        for old, new in pairs:
            old.replace_all_uses_with(new)
            program.graph_signature.replace_all_uses(old.name, new.name)
            graph.erase_node(old)
        if node not in (old for old, _ in pairs):
            graph.erase_node(node)
    graph.lint()
    program.graph_module.recompile()


def _name(function: Any) -> str:
    """The name that PyTorch's own decomposition would give the call."""
    return str(getattr(function, "overloadpacket", function).__name__)


def _copied(graph: fx.Graph, node: fx.Node, part: fx.Graph) -> Any:
    """Copies the part's nodes into the graph, each with the call's place in the user's code."""
    value_of: Dict[fx.Node, Any] = {}
    inputs = iter(node.all_input_nodes)
    result: Any = None
    for inner in part.nodes:
        if inner.op == "placeholder":
            value_of[inner] = next(inputs)
        elif inner.op == "output":
            result = fx.map_arg(inner.args[0], lambda n: value_of[n])
        else:
            args, kwargs = fx.map_arg((inner.args, inner.kwargs), lambda n: value_of[n])
            copy = graph.create_node(inner.op, inner.target, args, kwargs, _name(inner.target))
            copy.meta = {**node.meta, **{key: inner.meta[key] for key in _FUNCTIONAL_KEYS if key in inner.meta}}
            value_of[inner] = copy
    return result
