"""Writes complete models: into a message, or into a file with its weights inside or beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.errors import ModelError, UsageError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import external_tensors, remove_unused
from edgedla.fixes.network.network import has_data, tensor_path
from edgedla.importers.model_file.sparse_weights import GRAPH, INITIALIZER, RAW_DATA
from edgedla.importers.model_file.wire import LARGE_PAYLOAD_BYTES, fields, message
from edgedla.io.files import writing
from edgedla.io.publishing import Publication

#: protobuf reads no message above 2 GiB; larger models get their weights in a file beside the model.
MOST_BYTES_INSIDE, MOST_BYTES_OF_PROTOBUF = 1_900_000_000, (1 << 31) - 1
#: From this size on a constant may be in a file beside the model: onnx's own default.
LEAST_BYTES_BESIDE = 1024
#: Element types of weights, by their names in ONNX.
FLOATS = ("FLOAT", "FLOAT16")


def written_proto(model: Any, weights: Optional[Dict[bytes, np.ndarray]] = None) -> Any:
    """The onnx.ModelProto; external data stays external.

    Args:
        weights: gets the bytes of large weights by marks, which stand in their places: protobuf would copy them three times.

    Raises:
        ModelError: an element does not fit its type, or cannot be computed.
    """
    ir, marked = onnx_ir(), {}
    try:
        for value in model.graph.initializers.values():
            tensor, mark = value.const_value, os.urandom(16)
            plain = isinstance(tensor, (ir.Tensor, ir.LazyTensor)) and tensor.dtype.name in FLOATS
            if weights is not None and plain and tensor.nbytes > LARGE_PAYLOAD_BYTES:
                elements, marked[value] = np.ascontiguousarray(tensor.numpy()), tensor
                weights[mark] = elements.reshape(-1).view(np.uint8)
                stated = {"shape": tensor.shape, "doc_string": tensor.doc_string, "metadata_props": tensor.metadata_props}
                value.const_value = ir.Tensor(np.frombuffer(mark, elements.dtype), **stated)
        return ir.to_proto(model)
    except (ArithmeticError, TypeError, ValueError, RuntimeError) as e:
        # onnx-ir raises RuntimeErrors of its own around plain ones; the innermost says what it is.
        cause: BaseException = e
        while (inner := cause.__cause__ or cause.__context__) is not None:
            cause = inner
        raise ModelError(f"the rewritten model cannot be written: {str(cause)[:200]}", where=model.graph.name) from e
    finally:
        for value, tensor in marked.items():
            value.const_value = tensor


def _filled(data: memoryview, at: int, end: int, path: Sequence[int], weights: Mapping[bytes, Any]) -> List[Any]:
    """The message data[at:end] in pieces, with weights in place of their marks in the fields at this path."""
    parts: List[Any] = []
    for number, field, start, stop in fields(data, at, end):
        if number != path[0]:
            parts.append(data[field:stop])
        elif path[1:]:
            parts += message(number, _filled(data, start, stop, path[1:], weights))
        else:
            parts += message(number, [weights.get(bytes(data[start:stop]), data[start:stop])])
    return parts


def whole_proto(model: Any) -> Any:
    """The onnx.ModelProto with the elements of external files inside. ONNX Runtime would look for the files in the current
    folder.

    Raises:
        ModelError: the elements of a tensor are missing, or the model cannot be written.
    """
    proto = written_proto(model)
    for tensor in proto.graph.initializer:
        elements = model.graph.initializers[tensor.name].const_value
        if getattr(elements, "location", None) is not None:
            tensor.CopyFrom(tensor_inside(tensor.name, elements))
    return proto


def tensor_inside(name: str, tensor: Any) -> Any:
    """The onnx.TensorProto with its elements, even those in an external file.

    Raises:
        ModelError: they are missing.
    """
    import onnx

    if getattr(tensor, "location", None) is None:
        proto = onnx_ir().serde.serialize_tensor(tensor)
        proto.name = name
        return proto
    if not has_data(tensor):
        raise ModelError(f"the elements of {name!r} are missing", where=str(tensor_path(tensor)))
    proto = onnx.TensorProto(name=name, data_type=int(tensor.dtype), dims=[int(d) for d in tensor.shape])
    # onnx-ir maps the file, and cannot map nothing.
    proto.raw_data = tensor.tobytes() if tensor.size else b""
    # No page of the file stays mapped.
    tensor.release()
    return proto


def save_model(model: Any, path: Union[str, Path], out: Publication) -> List[Path]:
    """Writes the model and its external data, if any, for `out` to publish; returns the files.

    A small model is one file. If the source has weights in files beside it, a result in the same folder points to the same
    bytes; in another folder its weights are written into one file `<name>.data`, one at a time. Constants below 1 KiB are always
    in the model itself, as onnx writes them.

    Raises:
        UsageError: the result would overwrite its own source's weights.
        EnvironmentMissing: the file cannot be written.
    """
    path = Path(path)
    remove_unused(model)
    _take_in_small(model)
    external = external_tensors(model)
    foreign = [t for t in external if has_data(t) and Path(t.base_dir).resolve() != path.parent.resolve()]
    inside = sum(v.const_value.nbytes for v in model.graph.initializers.values()) - sum(t.nbytes for t in external)
    if not foreign and inside <= MOST_BYTES_INSIDE:
        weights: Dict[bytes, np.ndarray] = {}
        data_inside = memoryview(written_proto(model, weights).SerializeToString())
        parts = _filled(data_inside, 0, len(data_inside), (GRAPH, INITIALIZER, RAW_DATA), weights)
        if sum(map(len, parts)) > MOST_BYTES_OF_PROTOBUF:
            raise ModelError("the rewritten model cannot be written: protobuf holds 2 GiB at most", where=model.graph.name)
        out.write(path, iter(parts))
        return [path]
    data = path.parent / f"{path.name}.data"
    if any(tensor_path(t).resolve() == data.resolve() for t in external):
        raise UsageError("the result's weights would overwrite the ones it reads", where=str(data), hint="Name another -o")
    return _save_with_data(model, path, data, out)


def _take_in_small(model: Any) -> None:
    """Replaces small external constants by their elements; what is not there stays a reference."""
    ir = onnx_ir()
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if getattr(tensor, "location", None) is not None and tensor.nbytes < LEAST_BYTES_BESIDE and has_data(tensor):
            value.const_value = ir.serde.deserialize_tensor(tensor_inside(name, tensor))


def _save_with_data(model: Any, path: Path, data: Path, out: Publication) -> List[Path]:
    ir = onnx_ir()
    folder = out.scratch(path)
    missing: Dict[str, Tuple[Any, Any]] = {}
    try:
        for name, value in model.graph.initializers.items():
            if not has_data(value.const_value):
                # onnx-ir reads each external tensor to write it again; what is not there stays a reference.
                missing[name] = (value, value.const_value)
                value.const_value = None
        with writing(path):
            ir.save(model, folder / path.name, external_data=data.name, size_threshold_bytes=LEAST_BYTES_BESIDE - 1)
            os.replace(folder / data.name, out.take(data))
            os.replace(folder / path.name, out.take(path))
    finally:
        for value, tensor in missing.values():
            value.const_value = tensor
    return [path, data]
