"""The numbers of a TensorProto: raw, typed fields, or a small tensor in an external file; read only when asked for."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from edgedla.errors import ModelError
from edgedla.importers.context import Context
from edgedla.importers.dtypes import trt_type
from edgedla.importers.network.known import MAX_SMALL_ELEMENTS, PATIENT_TYPES, KnownValue, Small, Waiting, of_array
from edgedla.importers.network.lazy import fold
from edgedla.importers.network.limits import MAX_FOLDED_ELEMENTS, MAX_READ_FLOATS
from edgedla.importers.refuse import Refused
from edgedla.importers.values import ONNX_TYPE_NAMES, ONNX_TYPES, Weights

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
#: Bytes of one element in raw_data, for the types whose values can matter.
ITEM_BYTES = {
    ONNX_TYPES["FLOAT"]: 4,
    ONNX_TYPES["UINT8"]: 1,
    ONNX_TYPES["INT8"]: 1,
    ONNX_TYPES["INT32"]: 4,
    ONNX_TYPES["INT64"]: 8,
    ONNX_TYPES["BOOL"]: 1,
    ONNX_TYPES["FLOAT16"]: 2,
    ONNX_TYPES["DOUBLE"]: 8,
}
#: Types whose small tensors are read without NumPy -> format code of `struct`.
SMALL_CODES = {ONNX_TYPES["INT32"]: "i", ONNX_TYPES["INT64"]: "q", ONNX_TYPES["BOOL"]: "B"}
FLOAT_TYPES = frozenset({ONNX_TYPES["FLOAT"], ONNX_TYPES["FLOAT16"], ONNX_TYPES["DOUBLE"]})
#: Weights of these types are widened.
WIDENED_TYPES = {ONNX_TYPES["UINT8"]: "INT32"}


class TensorReader:
    """Turns TensorProtos into Weights; remembers missing external files."""

    def __init__(self, ctx: Context, folder: Optional[Path], where: str) -> None:
        """Args:
        where: the model's file, which errors name.
        """
        self.ctx = ctx
        self.folder = folder
        self.where = where
        self.external: Dict[str, Optional[Path]] = {}

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
        if proto.data_location == EXTERNAL:
            self.check_location(proto)
        return Weights(proto.name, dims, dtype, number, lambda: self.load(proto, dims, dtype or ""))

    def load(self, proto: Any, dims: Tuple[int, ...], dtype: str) -> Optional[KnownValue]:
        """The numbers, in TensorRT's type; None where they are too many or missing."""
        count = math.prod(dims)
        number = proto.data_type
        if number not in ITEM_BYTES or count > (MAX_READ_FLOATS if number in FLOAT_TYPES else MAX_FOLDED_ELEMENTS):
            return None
        if number in SMALL_CODES and count <= MAX_SMALL_ELEMENTS and proto.data_location != EXTERNAL:
            return small_numbers(proto, dims, dtype, count)
        if dtype in PATIENT_TYPES:
            return Waiting(dims, dtype, lambda: self.array(proto, dims, dtype, count))
        return of_array(self.array(proto, dims, dtype, count), dims, dtype)

    def array(self, proto: Any, dims: Tuple[int, ...], dtype: str, count: int) -> Any:
        """The numbers as a NumPy array; None where they are missing."""
        number = proto.data_type
        size = ITEM_BYTES[number]
        if proto.data_location == EXTERNAL:
            data = self.external_bytes(proto, count * size)
            values = None if data is None else fold().from_bytes(data, number, count)
        elif proto.raw_data:
            values = fold().from_bytes(proto.raw_data, number, count)
        else:
            values = typed_numbers(proto)
        return None if values is None or values.size != count else fold().typed(values, dims, dtype)

    def check_location(self, proto: Any) -> None:
        """Records an external file that is missing.

        Raises:
            ModelError: the file would lie outside the model's folder.
        """
        location = next((e.value for e in proto.external_data if e.key == "location"), "")
        if not isinstance(location, str):
            # protobuf returns bytes for text that is not UTF-8.
            raise ModelError(
                f"the external data of {proto.name!r} is at {location!r}, which is not UTF-8 text",
                where=self.where,
                hint="the file is damaged, or save the model with its external data under another name",
            )
        if location in self.external:
            return
        path = inside(self.folder, location) if self.folder is not None else None
        if self.folder is not None and path is None:
            raise outside(proto.name, location, self.folder, self.where)
        self.external[location] = path if path is not None and path.is_file() else None

    def external_bytes(self, proto: Any, size: int) -> Optional[bytes]:
        """A small tensor's bytes from its external file; None where that is missing or too short."""
        entries = {e.key: e.value for e in proto.external_data}
        path = self.external.get(entries.get("location", ""))
        if path is None:
            return None
        try:
            with path.open("rb") as f:
                f.seek(int(entries.get("offset", "0") or 0))
                data = f.read(size)
        except (OSError, ValueError, OverflowError):
            return None
        return data if len(data) == size else None

    def notes(self) -> List[str]:
        missing = sorted(name for name, path in self.external.items() if path is None)
        if not missing:
            return []
        listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        return [f"external weights are missing ({listed}); layers do not need them"]


def small_numbers(proto: Any, dims: Tuple[int, ...], dtype: str, count: int) -> Optional[Small]:
    """A few integers or booleans that the model file itself holds, read without NumPy."""
    code = SMALL_CODES[proto.data_type]
    raw = proto.raw_data
    numbers: Sequence[int]
    if raw:
        if len(raw) < count * ITEM_BYTES[proto.data_type]:
            return None
        numbers = struct.unpack_from(f"<{count}{code}", raw)
    else:
        numbers = list(getattr(proto, TYPED_FIELDS[proto.data_type]))
        if len(numbers) != count:
            return None
    return Small([int(n != 0) for n in numbers] if code == "B" else numbers, dims, dtype)


def typed_numbers(proto: Any) -> Any:
    """The numbers of a tensor without raw_data, as a flat array; None for a type that has none."""
    if proto.data_type == ONNX_TYPES["FLOAT16"]:
        return fold().from_half_bits(list(proto.int32_data))
    field = TYPED_FIELDS.get(proto.data_type)
    return None if field is None else fold().from_numbers(list(getattr(proto, field)))


def outside(name: str, location: str, folder: Path, where: str) -> ModelError:
    return ModelError(
        f"the external data of {name!r} is at {location!r}, outside the model's folder",
        where=where,
        allowed=f"a file under {folder}",
        hint="save the model with its external data beside it",
    )


def inside(folder: Path, location: str) -> Optional[Path]:
    """The external file, if it lies in the model's folder."""
    try:
        path = (folder / location).resolve()
        path.relative_to(folder.resolve())
    except (ValueError, OSError, RuntimeError):
        return None
    return path
