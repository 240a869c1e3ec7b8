"""Folds scales that an exporter left as arithmetic over constants."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

from edgedla.importers.model_file.value_names import read_names
from edgedla.quantization.qdq.nodes import constants_of, is_dequantize, is_quantize
from edgedla.quantization.session import open_session


def fold_scales(model: Any) -> None:
    """Computes scales and zero points of Q/DQ nodes that depend on constants alone, and stores them as initializers.

    PyTorch writes a weight's scale as ReduceMax(Abs(weight)) / 127. Scales that depend on an input stay unchanged.
    """
    from onnx import numpy_helper

    graph, constants = model.graph, constants_of(model)
    producer = {o: n for n in graph.node for o in n.output}
    pairs = [n for n in graph.node if is_quantize(n) or is_dequantize(n)]
    computed_names = sorted({t for n in pairs for t in n.input[1:3] if t and t not in constants})
    needed: Dict[int, Any] = {}
    computed: List[str] = []
    for name in computed_names:
        makers = _constant_makers(name, producer, constants)
        if makers is not None:
            computed.append(name)
            needed.update({id(n): n for n in makers})
    if not computed:
        return
    part = type(model)()
    part.ir_version = model.ir_version
    part.opset_import.extend(model.opset_import)
    part.graph.name = "scales"
    part.graph.node.extend(n for n in graph.node if id(n) in needed)
    read = {t for n in part.graph.node for t in n.input}
    part.graph.initializer.extend(i for i in graph.initializer if i.name in read)
    for name in computed:
        part.graph.output.add().name = name
    values = open_session(part.SerializeToString(), optimize=False).run(computed, {})
    if not all(hasattr(v, "dtype") for v in values):
        # A sequence arrives as a list and cannot be a scale; the later check refuses it.
        return
    # A name must not be written twice, so the node that wrote it is removed, with all nodes that only it needed.
    made = set(computed)
    remaining = [n for n in graph.node if not made & set(n.output)]
    del graph.node[:]
    graph.node.extend(type(n).FromString(n.SerializeToString()) for n in remaining)
    graph.initializer.extend(numpy_helper.from_array(v, name) for name, v in zip(computed, values))
    drop_unread(graph)


def _constant_makers(name: str, producer: Dict[str, Any], constants: Dict[str, Any]) -> Optional[List[Any]]:
    """The nodes that compute a tensor from constants; None if one depends on an input."""
    pending: List[str] = [name]
    seen: Set[str] = set()
    nodes: List[Any] = []
    while pending:
        tensor = pending.pop()
        if tensor in seen or not tensor:
            continue
        seen.add(tensor)
        node = producer.get(tensor)
        if node is None:
            if tensor not in constants:
                return None
            continue
        nodes.append(node)
        pending.extend(node.input)
    return nodes


def drop_unread(graph: Any) -> None:
    """Removes nodes and initializers whose values nothing reads."""
    outputs = {o.name for o in graph.output}
    while True:
        read = outputs.union(*map(read_names, graph.node))
        remaining = [n for n in graph.node if not n.output or read & set(n.output)]
        if len(remaining) == len(graph.node):
            break
        fresh = [type(n).FromString(n.SerializeToString()) for n in remaining]
        del graph.node[:]
        graph.node.extend(fresh)
    initializers = [i for i in graph.initializer if i.name in read]
    del graph.initializer[:]
    graph.initializer.extend(initializers)
