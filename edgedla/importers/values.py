"""Initializers and Constant outputs: dims and type always, the numbers only when something asks for them."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgedla.importers.network.known import KnownValue, Small
from edgedla.importers.refuse import CannotTell

#: ONNX TensorProto.DataType numbers by name (onnx.proto).
ONNX_TYPES: Dict[str, int] = {
    "FLOAT": 1,
    "UINT8": 2,
    "INT8": 3,
    "UINT16": 4,
    "INT16": 5,
    "INT32": 6,
    "INT64": 7,
    "STRING": 8,
    "BOOL": 9,
    "FLOAT16": 10,
    "DOUBLE": 11,
    "UINT32": 12,
    "UINT64": 13,
    "COMPLEX64": 14,
    "COMPLEX128": 15,
    "BFLOAT16": 16,
    "FLOAT8E4M3FN": 17,
    "FLOAT8E4M3FNUZ": 18,
    "FLOAT8E5M2": 19,
    "FLOAT8E5M2FNUZ": 20,
    "UINT4": 21,
    "INT4": 22,
    "FLOAT4E2M1": 23,
}
ONNX_TYPE_NAMES: Dict[int, str] = {number: name for name, number in ONNX_TYPES.items()}


class Weights:
    """Weights that are not in a layer yet.

    Attributes:
        name: the ONNX tensor's name; "" for weights of the parser's own.
        dims: sizes.
        dtype: TensorRT's DataType name.
        onnx_type: ONNX element type number.
    """

    __slots__ = ("_load", "_value", "dims", "dtype", "name", "onnx_type")

    def __init__(
        self,
        name: str,
        dims: Tuple[int, ...],
        dtype: str,
        onnx_type: int,
        load: Optional[Callable[[], Optional[KnownValue]]] = None,
        value: Optional[KnownValue] = None,
    ) -> None:
        self.name = name
        self.dims = dims
        self.dtype = dtype
        self.onnx_type = onnx_type
        self._load = load
        self._value = value

    @property
    def count(self) -> int:
        return math.prod(self.dims)

    def value(self) -> Optional[KnownValue]:
        """The numbers in the weights' dims; None where their data is missing or too large to read."""
        if self._load is not None:
            self._value = self._load()
            self._load = None
        return self._value

    def array(self) -> Any:
        """The same as a NumPy array."""
        value = self.value()
        return None if value is None else value.array()

    def known(self) -> Any:
        """The numbers.

        Raises:
            CannotTell: they are missing.
        """
        array = self.array()
        if array is None:
            raise CannotTell(f"the value of {self.name!r} decides the layers, but its data is not in the model file")
        return array

    def integers(self) -> List[int]:
        value = self.value()
        if isinstance(value, Small):
            return list(value.numbers)
        array = self.known()
        if array.dtype.kind == "i":
            numbers: List[int] = array.ravel().tolist()
            return numbers
        return [int(v) for v in array.ravel()]

    def renamed(self, name: str, dtype: Optional[str] = None) -> Weights:
        return Weights(name, self.dims, dtype or self.dtype, self.onnx_type, self._load, self._value)
