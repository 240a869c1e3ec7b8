"""The numbers of a TensorProto: raw, typed fields, or a small tensor in an external file; read only when asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional, Tuple

import numpy as np

from edgedla.importers.context import Context
from edgedla.importers.dtypes import trt_type
from edgedla.importers.network.fold import MAX_FOLDED_ELEMENTS, NUMPY_TYPES
from edgedla.importers.refuse import Refused
from edgedla.importers.values import ONNX_TYPE_NAMES, ONNX_TYPES, RAW_TYPES, Weights

EXTERNAL = 1
#: Fields of TensorProto that hold the numbers of a type, where raw_data does not.
TYPED_FIELDS = {
    ONNX_TYPES["FLOAT"]: "float_data",
    ONNX_TYPES["INT32"]: "int32_data",
    ONNX_TYPES["INT64"]: "int64_data",
    ONNX_TYPES["DOUBLE"]: "double_data",
    ONNX_TYPES["UINT8"]: "int32_data",
    ONNX_TYPES["INT8"]: "int32_data",
    ONNX_TYPES["BOOL"]: "int32_data",
}
#: Weights of these types are widened.
WIDENED_TYPES = {ONNX_TYPES["UINT8"]: "INT32"}


class TensorReader:
    """Makes Weights of TensorProtos; remembers what was missing."""

    def __init__(self, ctx: Context, folder: Optional[Path]) -> None:
        self.ctx = ctx
        self.folder = folder
        self.external = 0
        self.missing: List[str] = []

    def weights(self, proto: Any) -> Weights:
        """Raises:
        Refused: an element type that TensorRT does not know, or dims that make no sense.
        """
        number = proto.data_type
        dtype = WIDENED_TYPES.get(number) or trt_type(self.ctx, number)
        if number == ONNX_TYPES["INT64"]:
            # 8.6 narrows INT64 weights when they get a name.
            dtype = "INT64"
        if dtype is None:
            raise Refused(f"element type {ONNX_TYPE_NAMES.get(number, number)} is not supported")
        dims = tuple(proto.dims)
        if len(dims) > 8:
            raise Refused(f"rank {len(dims)}, TensorRT allows 8")
        if any(d < 0 for d in dims):
            raise Refused(f"negative dims {list(dims)}")
        return Weights(proto.name, dims, dtype, number, lambda: self.load(proto, dims, dtype or ""))

    def load(self, proto: Any, dims: Tuple[int, ...], dtype: str) -> Any:
        """The numbers, in TensorRT's type; None where they are many or not at hand."""
        count = 1
        for d in dims:
            count *= d
        target = NUMPY_TYPES.get(dtype)
        if count > MAX_FOLDED_ELEMENTS or target is None:
            return None
        raw_type = RAW_TYPES.get(proto.data_type)
        if raw_type is None:
            return None
        if proto.data_location == EXTERNAL:
            data = self.external_bytes(proto, count * raw_type.itemsize)
            if data is None:
                return None
            array = np.frombuffer(data, raw_type)
        elif proto.raw_data:
            data = proto.raw_data
            if len(data) < count * raw_type.itemsize:
                return None
            array = np.frombuffer(data, raw_type, count)
        else:
            array = typed_numbers(proto)
        if array is None or array.size != count:
            return None
        with np.errstate(all="ignore"):
            return array.reshape(dims).astype(target)

    def external_bytes(self, proto: Any, size: int) -> Optional[bytes]:
        """A small tensor's bytes from its external file, which must lie in the model's folder."""
        entries = {e.key: e.value for e in proto.external_data}
        location = entries.get("location", "")
        if self.folder is None or not location:
            self.missing.append(location or proto.name)
            return None
        path = inside(self.folder, location)
        if path is None:
            return None
        try:
            with path.open("rb") as f:
                f.seek(int(entries.get("offset", "0") or 0))
                data = f.read(size)
        except (OSError, ValueError, OverflowError):
            self.missing.append(location)
            return None
        return data if len(data) == size else None

    def notes(self) -> List[str]:
        return []


def typed_numbers(proto: Any) -> Any:
    number = proto.data_type
    if number == ONNX_TYPES["FLOAT16"]:
        return np.array(proto.int32_data, dtype=np.int64).astype(np.uint16).view(np.float16)
    field = TYPED_FIELDS.get(number)
    return None if field is None else np.array(getattr(proto, field))


def inside(folder: Path, location: str) -> Optional[Path]:
    """The external file, if it lies in the model's folder."""
    try:
        path = (folder / location).resolve()
        path.relative_to(folder.resolve())
    except (ValueError, OSError, RuntimeError):
        return None
    return path
