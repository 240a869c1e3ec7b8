"""Finds endless loops in a model: ONNX Runtime would never return from them, and no signal stops it."""

from __future__ import annotations

import math
from collections import ChainMap
from typing import Any, Optional

from edgedla.importers.model_file.value_names import bodies_of

#: Most rounds of a loop whose condition never ends it. A round takes ONNX Runtime some 10 us, so these are minutes.
MOST_ROUNDS = 10_000_000
#: onnx.TensorProto.DataType
INT64, BOOL = 7, 9


def endless_loop(graph: Any) -> Optional[str]:
    """Name of a Loop whose condition is always true and whose rounds have no limit; None if there is none.

    Args:
        graph: onnx.GraphProto. A condition that is computed at run time counts as one that may end the loop.
    """
    return _search(graph, ChainMap())


def _search(graph: Any, outer: ChainMap[str, Optional[int]]) -> Optional[str]:
    # An input of a graph hides an outer value of the same name.
    constants = outer.new_child({v.name: None for v in graph.input})
    constants.update((t.name, _scalar(t)) for t in graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            constants[node.output[0]] = next((_scalar(a.t) for a in node.attribute if a.name == "value"), None)
        elif node.op_type == "Identity" and node.input and node.output:
            constants[node.output[0]] = constants.get(node.input[0])
        if node.op_type == "Loop" and _endless(node, constants):
            return str(node.name or (node.output[0] if node.output else "Loop"))
        for body in bodies_of(node):
            name = _search(body, constants)
            if name is not None:
                return name
    return None


def _endless(node: Any, outer: ChainMap[str, Optional[int]]) -> bool:
    rounds, condition = (list(node.input) + ["", ""])[:2]
    body = next((a.g for a in node.attribute if a.name == "body"), None)
    if body is None or len(body.input) < 2 or not body.output:
        return False
    # A number computed at run time may be small, so it counts as a limit.
    limited = bool(rounds) and (outer.get(rounds) or 0) <= MOST_ROUNDS
    begins = not condition or bool(outer.get(condition, 0))
    return not limited and begins and _stays_true(body, outer)


def _stays_true(body: Any, outer: ChainMap[str, Optional[int]]) -> bool:
    """True if every round passes on the condition that it was given, or one that is always true."""
    name, given = body.output[0].name, body.input[1].name
    made = {output: node for node in body.node for output in node.output}
    constants = {t.name: _scalar(t) for t in body.initializer}
    for _ in range(len(body.node) + 1):
        if name == given:
            return True
        node = made.get(name)
        if node is None:
            return bool(constants.get(name, outer.get(name)))
        if node.op_type == "Constant":
            return bool(next((_scalar(a.t) for a in node.attribute if a.name == "value"), None))
        if node.op_type not in ("Identity", "Cast") or not node.input:
            return False
        name = node.input[0]
    return False


def _scalar(tensor: Any) -> Optional[int]:
    """The value of an onnx.TensorProto with one integer or bool; None for any other tensor."""
    if math.prod(tensor.dims) != 1 or tensor.data_type not in (INT64, BOOL):
        return None
    values = tensor.int64_data if tensor.data_type == INT64 else tensor.int32_data
    if len(values) == 1:
        return int(values[0])
    size = 8 if tensor.data_type == INT64 else 1
    return int.from_bytes(tensor.raw_data, "little", signed=size == 8) if len(tensor.raw_data) == size else None
