"""Tensors without Q/DQ: TensorRT never stores them, or their nodes stay in FP16."""

from __future__ import annotations

from typing import Any, Container, Dict, List, Mapping, Tuple

#: Operators that only move values: TensorRT uses the neighbours' scale, so they need no pair of their own.
_TRANSPARENT = frozenset({"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Constant", "Shape"})
#: Operators that TensorRT fuses into the one before: the tensor between them is never stored.
_MERGED = frozenset({"Relu", "Clip", "BatchNormalization", "LeakyRelu", "PRelu", "Add"})
_WORKING = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


class Unscaled:
    """Args:
    graph: onnx.GraphProto without Q/DQ. absmax: tensor -> range, for tensors that had a pair. constants: their names.
    """

    def __init__(self, graph: Any, absmax: Mapping[str, float], constants: Container[str]) -> None:
        self.graph, self.absmax, self.constants = graph, absmax, constants
        self.outputs = {o.name for o in graph.output}
        self.producer = {o: n for n in graph.node for o in n.output}
        self.readers: Dict[str, List[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def fp16_nodes(self) -> Tuple[str, ...]:
        """Computing nodes with a float activation that is stored and has no scale."""
        nodes = []
        for node in self.graph.node:
            if node.op_type in _TRANSPARENT:
                continue
            tensors = [t for t in node.input if t and t not in self.constants]
            tensors += [t for t in node.output if t]
            if node.name and any(t not in self.absmax and not self.inner(t) for t in tensors):
                nodes.append(node.name)
        return tuple(nodes)

    def inner_ranges(self) -> Dict[str, float]:
        """Tensor that is never stored -> range of the tensor that is stored after it.

        Even if TensorRT stores the inner tensor after all, nothing is lost: an activation clips to this range anyway.
        """
        ranges: Dict[str, float] = {}
        for node in reversed(self.graph.node):
            for tensor in node.output:
                if tensor not in self.absmax and self.inner(tensor):
                    after = self.readers[tensor][0].output[0]
                    following = self.absmax.get(after, ranges.get(after))
                    if following is not None:
                        ranges[tensor] = following
        return ranges

    def inner(self, tensor: str) -> bool:
        """True for a tensor between a Conv and an operator that TensorRT fuses into it: never stored, so no scale."""
        producer = self.producer.get(tensor)
        users = self.readers.get(tensor, [])
        merges = len(users) == 1 and users[0].op_type in _MERGED and tensor not in self.outputs
        if producer is None or not merges:
            return False
        constant = any(t in self.constants for t in users[0].input)
        return producer.op_type in (_WORKING | {"BatchNormalization"}) and (users[0].op_type != "Add" or constant)
