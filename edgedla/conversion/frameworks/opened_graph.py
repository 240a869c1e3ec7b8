"""A TensorFlow model in a form that tf2onnx can read: inlined, without state, and without operators that it lacks."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

#: Attributes that prevent inlining of a function, which tf2onnx needs.
_CLOSED = ("_XlaMustCompile", "_noinline")


def opened(trace: Any, inputs: Sequence[Tuple[str, Tuple[int, ...], str]], tf: Any) -> Any:
    """The model as a function of symbolic tensors: all functions that it calls are inlined, and captured tensors are constants.

    Args:
        trace, inputs: as in `from_tensorflow.Loaded`.
    """
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    signature = [tf.TensorSpec(sizes, dtype) for _, sizes, dtype in inputs]
    traced = tf.function(lambda *args: trace(args), input_signature=signature).get_concrete_function()
    nodes = every_node(traced.graph.as_graph_def())
    used = {node.op: node.name for node in nodes}
    code = sorted(kind for kind in used if "PyFunc" in kind)
    if code:
        raise ValueError(f"it calls Python ({code[0]}), which no file holds: {used[code[0]]}")
    if any(node.attr["T"].type == tf.bfloat16.as_datatype_enum for node in nodes if "T" in node.attr):
        raise ValueError("it computes in bfloat16, which the DLA does not: save it in float32")
    # As tf2onnx requires: this freezes variables, but not the tensors that a function has captured.
    try:
        frozen = convert_variables_to_constants_v2(traced, lower_control_flow=False, aggressive_inlining=True)
    except ValueError as e:
        state = sorted(kind for kind in used if kind.startswith("Assign"))
        if not state:
            raise
        raise ValueError(f"it changes a variable as it runs ({state[0]}: {used[state[0]]}): ONNX has no state") from e
    graph = tf.compat.v1.GraphDef()
    graph.CopyFrom(frozen.graph.as_graph_def())
    for holder in (*graph.library.function, *every_node(graph)):
        for name in _CLOSED:
            holder.attr.pop(name, None)
    captured = {inner.name: outer.numpy() for outer, inner in frozen.graph.captures}

    def function(*args: Any) -> List[Any]:
        given = {inner.name: arg for inner, arg in zip(frozen.inputs, args)}
        given.update((name, tf.constant(value)) for name, value in captured.items())
        outputs = tf.graph_util.import_graph_def(graph, given, [o.name for o in frozen.outputs], name="")
        return [tf.identity(output) for output in outputs]

    return function


def every_node(graph: Any) -> List[Any]:
    """The nodes of a GraphDef and of the functions in it."""
    return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]


def erfc(graph: Any, node: Any, name: str, args: Any) -> None:
    """1 - Erf, because tf2onnx does not know Erfc, which Keras 3 uses for the exact GELU."""
    import numpy as np
    from tf2onnx import utils

    shape, dtype = graph.get_shape(node.output[0]), graph.get_dtype(node.output[0])
    graph.remove_node(name)
    one = graph.make_const(utils.make_name(name), np.ones((), utils.map_onnx_to_numpy_type(dtype)))
    erf = graph.make_node("Erf", node.input, shapes=[shape], dtypes=[dtype])
    graph.make_node("Sub", [one.output[0], erf.output[0]], name=name, outputs=node.output, shapes=[shape], dtypes=[dtype])
