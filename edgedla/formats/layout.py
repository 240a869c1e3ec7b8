"""Memory layout of a tensor format: padded sizes, strides, alignment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import index
from typing import Any, Dict, Optional, Sequence, Tuple

from edgedla.errors import UsageError
from edgedla.formats.tensor_format import TensorFormat
from edgedla.graph.tensor import ELEMENT_BYTES

#: Row alignment of image formats in bytes, by chip (NvInfer.h 8.4 to 9.3: 32 on Xavier, 64 on Orin).
#: The guides print the formula with 32 only and the Python docstring still says 32 in 11.1; the header is followed.
IMAGE_ROW_BYTES: Dict[str, int] = {"xavier": 32, "orin": 64}

#: DLA_LINEAR rows are a multiple of this many bytes on every chip (NvInfer.h 8.0 to 11.1).
DLA_LINEAR_ROW_BYTES = 64

#: Channels of one vector of the channel-vectorised formats.
VECTOR_CHANNELS: Dict[TensorFormat, int] = {TensorFormat.CHW4: 4, TensorFormat.CHW16: 16, TensorFormat.CHW32: 32}

#: DLA_HWC4: channels of the tensor and the channels one pixel takes in memory.
HWC4_CHANNELS: Dict[int, int] = {1: 1, 3: 4, 4: 4}


@dataclass(frozen=True)
class Layout:
    """Memory of one tensor, seen as the array [N][groups][H][row_vectors][vector].

    Attributes:
        format: the tensor format.
        dtype: TensorRT's DataType name.
        dims: the tensor's own dims.
        nchw: the dims read as (N, C, H, W): leading dims multiply into N, missing ones are 1.
        groups: channel groups: C for linear formats, 1 for DLA_HWC4, ceil(C / vector) otherwise.
        row_vectors: vectors per row, padding included (a vector is one pixel of one channel group).
        vector: elements of one vector.
        chip: the chip whose row alignment is used; None if the format does not depend on it.
    """

    format: TensorFormat
    dtype: str
    dims: Tuple[int, ...]
    nchw: Tuple[int, int, int, int]
    groups: int
    row_vectors: int
    vector: int
    chip: Optional[str] = None

    @property
    def element_bytes(self) -> int:
        return int(ELEMENT_BYTES[self.dtype])

    @property
    def storage_shape(self) -> Tuple[int, int, int, int, int]:
        """Array shape in memory order: N, groups, H, row_vectors, vector."""
        n, _, h, _ = self.nchw
        return n, self.groups, h, self.row_vectors, self.vector

    @property
    def elements(self) -> int:
        n, g, h, w, v = self.storage_shape
        return n * g * h * w * v

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole buffer, padding included."""
        return self.elements * self.element_bytes

    @property
    def row_bytes(self) -> int:
        """Line stride: bytes from one row to the next of the same channel group."""
        return self.row_vectors * self.vector * self.element_bytes

    @property
    def strides_nchw(self) -> Tuple[int, int, int, int]:
        """Steps along N, C (one group), H and W in vectors, as getTensorStrides and TensorRT's logs count them."""
        _, _, h, _ = self.nchw
        plane = h * self.row_vectors
        return self.groups * plane, 1 if self.format is TensorFormat.DLA_HWC4 else plane, self.row_vectors, 1

    @property
    def stride_bytes_nchw(self) -> Tuple[int, int, int, int]:
        """Bytes from one batch entry, channel group, row and pixel to the next.

        Inside a group the next channel is `element_bytes` away; for linear formats a group is one channel.
        """
        each = self.vector * self.element_bytes
        n, _, h, w = self.strides_nchw
        c = self.element_bytes if self.format is TensorFormat.DLA_HWC4 else self.nchw[2] * self.row_vectors * each
        return n * each, c, h * each, w * each

    @property
    def strides_bytes(self) -> Dict[str, int]:
        """`stride_bytes_nchw` by axis name."""
        return dict(zip("nchw", self.stride_bytes_nchw))

    def describe(self) -> str:
        """As TensorRT's verbose log writes it, for example `INT8(50176,50176:32,224,1)`."""
        n, c, h, w = self.strides_nchw
        group = f"{c}:{self.vector}" if self.vector > 1 else str(c)
        return f"{self.dtype}({n},{group},{h},{w})"

    def to_dict(self) -> Dict[str, Any]:
        return {
            "format": str(self.format),
            "dtype": self.dtype,
            "dims": list(self.dims),
            "size_bytes": self.size_bytes,
            "row_bytes": self.row_bytes,
            "strides_nchw": list(self.strides_nchw),
            "stride_bytes_nchw": list(self.stride_bytes_nchw),
            "vector": self.vector,
            "chip": self.chip,
        }


def layout(
    format: TensorFormat, dtype: str, dims: Sequence[int], *, chip: Optional[str] = None, gpu_fallback: bool = True
) -> Layout:
    """The layout of a tensor.

    Formulas, with e the element size in bytes and A the chip's row alignment:

    - DLA_LINEAR: W' = roundUp(W, 64 / e)
    - DLA_HWC4:   W' = roundUp(W, A / C' / e)
    - CHW4:       W' = roundUp(W, A / 4 / e) on the DLA without GPU fallback; W' = W otherwise

    Args:
        dims: static dims; the last three are C, H, W.
        chip: "xavier" or "orin"; needed by DLA_HWC4, and by CHW4 without fallback.
        gpu_fallback: False if the buffer goes directly to the DLA, so that CHW4 rows follow its line stride.

    Raises:
        UsageError: the dims are dynamic or empty, the format cannot hold them, or the chip is missing.
    """
    try:
        dims = tuple(index(d) for d in dims)
    except TypeError as e:
        raise UsageError(f"dims {list(dims)!r} are not whole numbers") from e
    if any(d < 1 for d in dims):
        raise UsageError(f"dims {list(dims)} are not all positive", hint="a layout needs static shapes")
    if dtype not in ELEMENT_BYTES or ELEMENT_BYTES[dtype] != int(ELEMENT_BYTES[dtype]):
        raise UsageError(f"no layout for element type {dtype!r}", allowed="types of whole bytes")
    if format is not TensorFormat.LINEAR and len(dims) < 3:
        raise UsageError(f"{format} needs at least three dims, found {list(dims)}")
    n, c, h, w = _nchw(dims)
    each = int(ELEMENT_BYTES[dtype])
    used_chip: Optional[str] = None
    groups, row, vector = c, w, 1
    if format is TensorFormat.DLA_LINEAR:
        row = _round_up(w, DLA_LINEAR_ROW_BYTES // each)
    elif format is TensorFormat.DLA_HWC4:
        if c not in HWC4_CHANNELS:
            raise UsageError(f"DLA_HWC4 cannot hold {c} channels", allowed="1, 3 or 4")
        groups, vector, used_chip = 1, HWC4_CHANNELS[c], _require_chip(chip, format)
        row = _round_up(w, max(1, IMAGE_ROW_BYTES[used_chip] // vector // each))
    elif format in VECTOR_CHANNELS:
        vector = VECTOR_CHANNELS[format]
        groups = -(-c // vector)
        if format is TensorFormat.CHW4 and not gpu_fallback:
            used_chip = _require_chip(chip, format)
            row = _round_up(w, max(1, IMAGE_ROW_BYTES[used_chip] // vector // each))
    return Layout(format, dtype, dims, (n, c, h, w), groups, row, vector, used_chip)


def _nchw(dims: Tuple[int, ...]) -> Tuple[int, int, int, int]:
    c, h, w = ((1, 1, 1) + dims)[-3:]
    return math.prod(dims[:-3]), c, h, w


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _require_chip(chip: Optional[str], format: TensorFormat) -> str:
    if chip not in IMAGE_ROW_BYTES:
        raise UsageError(
            f"the row alignment of {format} depends on the chip, and chip is {chip!r}", allowed=", ".join(sorted(IMAGE_ROW_BYTES))
        )
    return chip
