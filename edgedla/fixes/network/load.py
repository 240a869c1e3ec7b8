"""Reads a model's file with each large weight in memory once: protobuf holds them beside the file's bytes, and copies them at each look."""

from __future__ import annotations

import math
import mmap
import os
from typing import Any, BinaryIO, Dict, List, Set

import numpy as np

from edgedla.fixes.network.library import onnx_ir
from edgedla.importers.model_file.sparse_weights import constants
from edgedla.importers.model_file.value_names import graphs_in
from edgedla.importers.model_file.wire import stripped

#: Fields of TensorProto that hold elements.
PAYLOADS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
#: Element types whose weights are large, by their numbers in ONNX.
_TYPES = {1: np.float32, 10: np.float16}


def load(path: str) -> Any:
    """As onnx_ir.load; the elements of large weights are arrays."""
    import onnx

    ir = onnx_ir()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        proto = onnx.ModelProto.FromString(stripped(data))
        bare = left_out(proto)
        arrays = _arrays(proto.graph, {tensor.name for tensor in bare}, data, file)
    if len(arrays) < len(bare):
        # Elements in another field or type, or a large constant in a node.
        return ir.load(path)
    model = ir.from_proto(proto)
    ir.external_data.set_base_dir(model.graph, os.path.dirname(path))
    for name, array in arrays.items():
        kind, shape = ir.DataType.from_numpy(array.dtype), ir.Shape(array.shape)
        tensor = ir.LazyTensor(lambda array=array: ir.Tensor(array), kind, shape, name=name)
        model.graph.initializers[name].const_value = tensor
    return model


def _arrays(graph: Any, names: Set[str], data: Any, file: BinaryIO) -> Dict[str, np.ndarray]:
    found: Dict[str, np.ndarray] = {}
    for name, tensor, (start, stop) in constants(graph, data):
        plain = {field.name for field, _ in tensor.ListFields()} == {"dims", "data_type", "name"}
        kind = _TYPES.get(tensor.data_type)
        if name not in names or not plain or kind is None or stop - start != math.prod(tensor.dims) * np.dtype(kind).itemsize:
            continue
        found[name] = np.empty(tuple(tensor.dims), kind)
        file.seek(start)
        file.readinto(found[name].reshape(-1).view(np.uint8))  # type: ignore[attr-defined]
    return found


def left_out(proto: Any) -> List[Any]:
    """The tensors of an onnx.ModelProto whose elements were left out of its file's bytes, also those of subgraphs and functions."""
    graphs = [graph for part in (proto.graph, *proto.functions) for graph in graphs_in(part)]
    tensors = [tensor for graph in graphs for tensor in getattr(graph, "initializer", ())]
    for entry in (entry for graph in graphs for node in graph.node for entry in node.attribute):
        tensors += (*([entry.t] if entry.HasField("t") else ()), *entry.tensors)
    inside = [t for t in tensors if t.data_location != t.EXTERNAL and math.prod(t.dims) > 0]
    return [t for t in inside if not any(getattr(t, field) for field in PAYLOADS)]
