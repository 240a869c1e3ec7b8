"""Tensors without Q/DQ: TensorRT never stores them, or their nodes stay in FP16."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

from edgedla.quantization.qdq.fused import fused_tensors
from edgedla.quantization.qdq.nodes import constants_of

#: Operators that only move values: TensorRT uses the neighbours' scale, so they need no pair of their own.
_TRANSPARENT = frozenset({"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Constant", "Shape"})


def fp16_nodes(model: Any, absmax: Mapping[str, float]) -> Tuple[str, ...]:
    """Computing nodes of a model without Q/DQ with a float activation that is stored and has no range."""
    constants, inner, nodes = constants_of(model), fused_tensors(model), []
    for node in model.graph.node:
        if node.op_type in _TRANSPARENT:
            continue
        tensors = [t for t in node.input if t and t not in constants]
        tensors += [t for t in node.output if t]
        if node.name and any(t not in absmax and t not in inner for t in tensors):
            nodes.append(node.name)
    return tuple(nodes)


def inner_ranges(model: Any, absmax: Mapping[str, float]) -> Dict[str, float]:
    """Tensor that is never stored -> range of the tensor that is stored after it.

    Even if TensorRT stores the inner tensor after all, nothing is lost: an activation clips to this range anyway.
    """
    inner, ranges = fused_tensors(model), dict(absmax)
    for node in reversed(model.graph.node):
        for tensor in node.output:
            after = model.graph.node[inner[tensor]].output[0] if tensor in inner else ""
            if tensor not in ranges and after in ranges:
                ranges[tensor] = ranges[after]
    return {name: ranges[name] for name in ranges if name not in absmax}
