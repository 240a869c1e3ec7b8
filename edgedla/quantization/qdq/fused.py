"""Finds tensors that TensorRT never stores because it fuses their writer and their reader."""

from __future__ import annotations

from typing import Any, Dict, List

from edgedla.quantization.qdq.nodes import constants_of

#: Operators that TensorRT fuses later ones into: the value between them is never stored, so never rounded.
FUSING = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
FUSED_INTO = frozenset({"BatchNormalization", "Relu", "Clip", "Add", "PRelu", "LeakyRelu"})
NORMALISED = frozenset({"Relu", "Clip", "PRelu", "LeakyRelu"})


def fused_tensors(model: Any) -> Dict[str, int]:
    """Tensor -> index of its one reader, if TensorRT fuses writer and reader when both run in one mode."""
    graph, constants = model.graph, constants_of(model)
    readers: Dict[str, List[int]] = {}
    for i, node in enumerate(graph.node):
        for t in node.input:
            readers.setdefault(t, []).append(i)
    outputs = {o.name for o in graph.output}
    fused = {}
    for node in graph.node:
        # Conv, BatchNormalization and Relu become one operation, so neither value between them is stored.
        into = FUSED_INTO if node.op_type in FUSING else NORMALISED if node.op_type == "BatchNormalization" else ()
        for name in node.output:
            if not into or name in outputs or len(readers.get(name, ())) != 1:
                continue
            reader = graph.node[readers[name][0]]
            if reader.op_type in into and (reader.op_type != "Add" or any(t in constants for t in reader.input)):
                fused[name] = readers[name][0]
    return fused
