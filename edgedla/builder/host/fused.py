"""Which tensors of an ONNX model TensorRT never stores, because it merges their writer and their reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List

from edgedla.quantization.qdq.nodes import constants_of

if TYPE_CHECKING:
    from onnx import ModelProto

#: A convolution and what TensorRT merges into it: the value between them is never stored, so never rounded.
FUSING = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
FUSED_INTO = frozenset({"BatchNormalization", "Relu", "Clip", "Add", "PRelu", "LeakyRelu"})
NORMALISED = frozenset({"Relu", "Clip", "PRelu", "LeakyRelu"})


def fused_tensors(model: ModelProto) -> Dict[str, int]:
    """Tensor -> index of its one reader, where TensorRT merges writer and reader: if both run in one mode, it is not stored."""
    constants = constants_of(model)
    readers: Dict[str, List[int]] = {}
    for i, node in enumerate(model.graph.node):
        for t in node.input:
            readers.setdefault(t, []).append(i)
    outputs = {o.name for o in model.graph.output}
    fused = {}
    for node in model.graph.node:
        # Conv, BatchNormalization, Relu is one operation: the value before the last of them is not stored either.
        into = FUSED_INTO if node.op_type in FUSING else NORMALISED if node.op_type == "BatchNormalization" else ()
        for name in node.output:
            if not into or name in outputs or len(readers.get(name, ())) != 1:
                continue
            reader = model.graph.node[readers[name][0]]
            if reader.op_type in into and (reader.op_type != "Add" or any(t in constants for t in reader.input)):
                fused[name] = readers[name][0]
    return fused
