"""Weights of 2:4 structured sparsity: at each output and tap, at most two of each four input channels are not zero."""

from __future__ import annotations

import struct
from typing import Any, FrozenSet, Iterable, Iterator, Set, Tuple

from edgedla.importers.model_file.wire import Malformed, fields
from edgedla.importers.values import ONNX_TYPES

#: ONNX element type -> its code, the same for struct and NumPy.
CODES = {ONNX_TYPES["FLOAT"]: "f", ONNX_TYPES["FLOAT16"]: "e", ONNX_TYPES["INT8"]: "b"}
#: Field numbers of ModelProto, GraphProto and TensorProto.
GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
#: Operators that leave zeros where they are.
KEEPING_ZEROS = frozenset({"Cast", "DequantizeLinear", "Identity", "QuantizeLinear"})


def sparse_weights(initializers: Iterable[Any], data: Any) -> FrozenSet[str]:
    """Names of a model's 2:4 sparse initializers; those in external files are not looked at. TensorRT Developer Guide 8.5.

    Args:
        initializers: of the model in `data`, in their order; their payload may be missing.
        data: bytes or an mmap of the whole model. Of dense weights some 16 bytes are read.
    """
    found = set()
    for tensor, (start, stop) in zip(initializers, _payloads(data)):
        code, dims = CODES.get(tensor.data_type), tuple(tensor.dims)
        if code is None or len(dims) < 3 or dims[1] < 4 or min(dims) < 1:
            continue
        taps, size = 1, struct.calcsize(code)
        for dim in dims[2:]:
            taps *= dim
        if stop - start != dims[0] * dims[1] * taps * size:
            continue
        first = [struct.unpack_from(f"<{code}", data, start + i * taps * size)[0] for i in range(4)]
        if sum(value != 0 for value in first) <= 2 and _all_sparse(data, start, dims[:2], taps, code):
            found.add(tensor.name)
    return frozenset(found)


def reads_of(weights: FrozenSet[str], nodes: Iterable[Any]) -> Set[str]:
    """These initializers, and the values that are they in other types."""
    carried = set(weights)
    for node in nodes:
        if node.op_type in KEEPING_ZEROS and node.input and node.input[0] in carried:
            carried.update(node.output)
    return carried


def _payloads(data: Any) -> Iterator[Tuple[int, int]]:
    """(start, end) of the raw data of each initializer, both 0 where it has none."""
    try:
        for number, _, graph, end in fields(data, 0, len(data)):
            for inner, _, tensor, stop in fields(data, graph, end) if number == GRAPH else ():
                if inner == INITIALIZER:
                    raw = [place[2:] for place in fields(data, tensor, stop) if place[0] == RAW_DATA]
                    yield raw[-1] if raw else (0, 0)
    except Malformed:
        return


def _all_sparse(data: Any, start: int, outer: Tuple[int, ...], taps: int, code: str) -> bool:
    import numpy as np

    kernels, channels = outer
    held = np.frombuffer(data, f"<{code}" if code != "b" else code, kernels * channels * taps, start) != 0
    # Channels beyond the last four count as if zeros followed them.
    grouped = np.zeros((kernels, -(-channels // 4) * 4, taps), bool)
    grouped[:, :channels] = held.reshape(kernels, channels, taps)
    return bool(held.any()) and int(grouped.reshape(kernels, -1, 4, taps).sum(2).max()) <= 2
