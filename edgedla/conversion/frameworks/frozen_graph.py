"""Frozen TensorFlow graphs: finds their inputs and outputs, and makes a function of the part in between."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence


class Frozen(NamedTuple):
    """A part of a graph.

    Attributes:
        starts, ends: its tensors, in order. run: computes it from values. trace: adds it to the graph being built.
    """

    starts: List[Any]
    ends: List[Any]
    run: Callable[..., List[Any]]
    trace: Callable[[Sequence[Any]], List[Any]]


def frozen_part(request: Dict[str, Any], tf: Any) -> Frozen:
    graph = tf.compat.v1.GraphDef()
    with open(request["source"], "rb") as f:
        graph.ParseFromString(f.read())
    variables = [node.name for node in graph.node if node.op in ("VarHandleOp", "Variable", "VariableV2")]
    if variables:
        raise ValueError(f"it is not frozen: {variables[0]} is a variable, whose values are in another file")
    for node in graph.node:
        if node.op == "PlaceholderWithDefault":
            # Mostly the flag that tells whether the graph is training.
            kind = node.attr["dtype"].type
            node.op = "Identity"
            node.attr.clear()
            node.attr["T"].type = kind
    whole = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    starts, ends = (named_in(whole.graph, request[key]) for key in ("inputs", "outputs"))
    if not starts:
        starts = [op.outputs[0] for op in whole.graph.get_operations() if op.type in ("Placeholder", "PlaceholderV2")]
    ends = ends or unread(whole.graph)
    if not starts or not ends:
        raise ValueError(
            "it has no placeholder: name its inputs by --inputs"
            if ends
            else "each of its tensors is read: name its outputs by --outputs"
        )
    model = whole.prune(starts, ends)

    def trace(values: Sequence[Any]) -> List[Any]:
        # Not as a call of `model`: with loops of TensorFlow 1 inside, it would stay a call.
        given = {tensor.name: value for tensor, value in zip(starts, values)}
        return list(tf.graph_util.import_graph_def(graph, given, [tensor.name for tensor in ends], name=""))

    return Frozen(starts, ends, model, trace)


def named_in(graph: Any, names: Sequence[str]) -> List[Any]:
    """Tensors of a graph by their names, or by those of their operators."""
    tensors = []
    for name in names:
        try:
            tensors.append(graph.as_graph_element(name if ":" in name else f"{name}:0", allow_operation=False))
        except (KeyError, ValueError):
            ends = ", ".join(port(tensor) for tensor in unread(graph))
            raise ValueError(f"no tensor is called {name}; its last tensors are {ends}") from None
    return tensors


def port(tensor: Any) -> str:
    """The name of an input or output: its operator's, with a number if the operator has several."""
    name, _, number = tensor.name.partition(":")
    return name if number == "0" else f"{name}_{number}"


#: Operators whose results are only for logs or training.
_NO_RESULT = ("Assert", "Const", "NoOp", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault")


def unread(graph: Any) -> List[Any]:
    """Results of operators that no other operator reads."""
    every = graph.get_operations()
    read = {tensor.op.name for op in every for tensor in op.inputs}
    ends = [op for op in every if op.name not in read and op.type not in _NO_RESULT and "Summary" not in op.type]
    # A batch normalization also returns statistics.
    return [tensor for op in ends for tensor in (op.outputs[:1] if "BatchNorm" in op.type else op.outputs)]
