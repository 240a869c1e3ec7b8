"""Weights of 2:4 structured sparsity: at each output and tap, at most two of each four input channels are not zero."""

from __future__ import annotations

import math
import struct
from typing import Any, FrozenSet, Iterable, Iterator, Set, Tuple

from edgedla.importers.model_file.wire import Malformed, fields
from edgedla.importers.values import ONNX_TYPES

#: ONNX element type -> its code, the same for struct and NumPy.
CODES = {ONNX_TYPES["FLOAT"]: "f", ONNX_TYPES["FLOAT16"]: "e", ONNX_TYPES["INT8"]: "b"}
#: Field numbers: graph of ModelProto; node, initializer of GraphProto; attribute of NodeProto, its tensor; raw data of a TensorProto.
GRAPH, NODE, INITIALIZER, ATTRIBUTE, TENSOR, RAW_DATA = 7, 1, 5, 5, 5, 9
#: Operators that leave zeros where they are.
KEEPING_ZEROS = frozenset({"Cast", "DequantizeLinear", "Identity", "QuantizeLinear"})


def sparse_weights(graph: Any, data: Any) -> FrozenSet[str]:
    """Names of the 2:4 sparse initializers and Constants; what is in external files is not looked at. TensorRT Developer Guide 8.5.

    Args:
        graph: GraphProto of the model in `data`; the payload of its tensors may be missing.
        data: bytes or an mmap of the whole model. Of dense weights some 16 bytes are read.
    """
    tensors = (*graph.initializer, *(a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute))
    if not any(len(t.dims) > 2 and not t.data_location for t in tensors):
        return frozenset()
    found = set()
    for name, tensor, (start, stop) in constants(graph, data):
        code, dims = CODES.get(tensor.data_type), tuple(tensor.dims)
        if code is None or len(dims) < 3 or dims[1] < 4 or min(dims) < 1:
            continue
        taps, size = math.prod(dims[2:]), struct.calcsize(code)
        if stop - start != dims[0] * dims[1] * taps * size:
            continue
        first = [struct.unpack_from(f"<{code}", data, start + i * taps * size)[0] for i in range(4)]
        if sum(value != 0 for value in first) <= 2 and _all_sparse(data, start, dims[:2], taps, code):
            found.add(name)
    return frozenset(found)


def reads_of(weights: FrozenSet[str], nodes: Iterable[Any]) -> Set[str]:
    """The names of weights, and of the values that are the same weights cast or quantised."""
    carried = set(weights)
    for node in nodes:
        if node.op_type in KEEPING_ZEROS and node.input and node.input[0] in carried:
            carried.update(node.output)
    return carried


def constants(graph: Any, data: Any) -> Iterator[Tuple[str, Any, Tuple[int, int]]]:
    """(name, TensorProto, place of its raw data) of each initializer and Constant."""
    initializers, nodes = iter(graph.initializer), iter(graph.node)
    try:
        for number, _, whole, end in fields(data, 0, len(data)):
            for inner, _, start, stop in fields(data, whole, end) if number == GRAPH else ():
                if inner == INITIALIZER:
                    tensor = next(initializers)
                    yield tensor.name, tensor, _place(data, start, stop, RAW_DATA)
                elif inner == NODE:
                    node = next(nodes)
                    tensor = node.attribute[0].t if node.op_type == "Constant" and node.attribute else None
                    if tensor is not None and node.output and len(tensor.dims) > 2:
                        yield node.output[0], tensor, _place(data, start, stop, ATTRIBUTE, TENSOR, RAW_DATA)
    except (Malformed, StopIteration):
        # The bytes are not those of this graph.
        return


def _place(data: Any, start: int, stop: int, *path: int) -> Tuple[int, int]:
    """(start, end) of a field within fields, both 0 where there is none."""
    for number in path:
        start, stop = next((place[2:] for place in fields(data, start, stop) if place[0] == number), (0, 0))
    return start, stop


def _all_sparse(data: Any, start: int, outer: Tuple[int, ...], taps: int, code: str) -> bool:
    import numpy as np

    kernels, channels = outer
    held = np.frombuffer(data, f"<{code}", kernels * channels * taps, start) != 0
    # Channels beyond the last four count as if zeros followed them.
    grouped = np.zeros((kernels, -(-channels // 4) * 4, taps), bool)
    grouped[:, :channels] = held.reshape(kernels, channels, taps)
    return bool(held.any()) and int(grouped.reshape(kernels, -1, 4, taps).sum(2).max()) <= 2
