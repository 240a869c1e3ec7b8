"""Changes calls in a module: parts of torch.nn are replaced as a whole, forwards of the user's classes by torch.fx.

Only classes whose own forward makes a changed call are traced, with all their parts as leaves. So other code that
depends on the training mode stays as written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterable, Optional, Sequence, Tuple

import torch
from torch import fx, nn

from edgedla.errors import own_code
from edgedla.torch.adaptation.rewrites import Form, Refused
from edgedla.torch.calls import Key, Paths, Recorder
from edgedla.torch.exporting import evaluating

_TRACE_CHARACTERS = 160


#: (positional arguments, keyword arguments) of one call.
CallInputs = Tuple[Tuple[Any, ...], Dict[str, Any]]


@dataclass(frozen=True)
class Edit:
    """One call and its replacement: a Form, or None to pass on its first argument."""

    key: Key
    form: Optional[Form]


def replaced(root: nn.Module, path: str, new: nn.Module) -> nn.Module:
    """The root with the part at `path` replaced; the new part itself if the path is empty."""
    if not path:
        return new
    parent, _, name = path.rpartition(".")
    root.get_submodule(parent).add_module(name, new.train(root.get_submodule(path).training))
    return root


def edit_part(root: nn.Module, path: str, edits: Sequence[Edit], inputs: CallInputs) -> nn.Module:
    """The root with the edits made in the part at `path`.

    Args:
        inputs: the inputs of the part.

    Raises:
        Refused: the part's forward cannot be traced, or depends on the training mode.
    """
    part = root.get_submodule(path)
    if type(part).__module__.startswith("torch.nn.") and len(edits) == 1 and not list(part.children()):
        form = edits[0].form
        if form is None:
            return replaced(root, path, nn.Identity())
        if form.operand is None:
            return replaced(root, path, nn.Sequential(form.module, nn.Flatten(1)) if form.flat else form.module)
    graph_module = _traced(part)
    nodes = _nodes_of_calls(graph_module, *inputs)
    for number, edit in enumerate(edits):
        node = nodes.get(("", *edit.key[1:]))
        if node is None:
            raise Refused(f"no operation of its traced forward is {edit.key[1]}")
        _edit_node(graph_module, node, edit.form, f"dla_{number}")
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return replaced(root, path, graph_module)


class _Shallow(fx.Tracer):
    """Treats every part as a leaf."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _not_traced(error: BaseException) -> Refused:
    text = str(error).strip().splitlines() or [type(error).__name__]
    return Refused(f"its forward cannot be traced: {text[0][:_TRACE_CHARACTERS]}")


def _traced(part: nn.Module) -> fx.GraphModule:
    codes, graphs = [], []
    for training in (True, False):
        before = part.training
        part.training = training
        try:
            with own_code(_not_traced):
                graph = _Shallow().trace(part)
        finally:
            part.training = before
        graphs.append(graph)
        codes.append(str(graph))
    if codes[0] != codes[1]:
        raise Refused("its own forward depends on the training mode")
    return fx.GraphModule(part, graphs[1], class_name=type(part).__name__)


def inputs_of_parts(root: nn.Module, paths: Iterable[str], inputs: Sequence[Any]) -> Dict[str, CallInputs]:
    """Path of a part -> inputs of its first call, in one forward of the root."""
    inputs_by_path: Dict[str, CallInputs] = {}

    def keeper(path: str) -> Any:
        def keep(_module: nn.Module, args: Any, kwargs: Any) -> None:
            # Copies, because in-place operations would change them.
            inputs_by_path.setdefault(path, (tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args), dict(kwargs)))

        return keep

    handles = [root.get_submodule(p).register_forward_pre_hook(keeper(p), with_kwargs=True) for p in paths]
    try:
        with evaluating(root), torch.no_grad():
            root(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return inputs_by_path


def _nodes_of_calls(module: fx.GraphModule, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Dict[Key, fx.Node]:
    """Key of a call, relative to the part -> its node in the trace."""
    nodes: Dict[Key, fx.Node] = {}
    with evaluating(module), torch.no_grad(), Paths(module) as paths, Recorder(paths) as recorder:

        class Interpreter(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                before = len(recorder.calls)
                result = super().run_node(n)
                for call in recorder.calls[before:]:
                    nodes.setdefault(call.key, n)
                return result

        names = [n.target for n in module.graph.nodes if n.op == "placeholder"]
        Interpreter(module).run(*args, *(kwargs[str(n)] for n in names[len(args) :] if str(n) in kwargs))
    return nodes


def _edit_node(module: fx.GraphModule, node: fx.Node, form: Optional[Form], name: str) -> None:
    graph = module.graph
    if form is None:
        node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type]
        graph.erase_node(node)
        return
    module.add_submodule(name, form.module)
    if form.operand is not None:
        with graph.inserting_before(node):
            enlarged = graph.call_module(name, (node.args[form.operand],))
        node.update_arg(form.operand, enlarged)
        return
    with graph.inserting_after(node):
        new = graph.call_module(name, (node.args[0],))
    last = new
    if form.flat:
        with graph.inserting_after(new):
            last = graph.call_function(torch.flatten, (new, 1))
    node.replace_all_uses_with(last)
    graph.erase_node(node)
