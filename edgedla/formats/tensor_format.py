"""Tensor formats of network inputs and outputs, with TensorRT's names and trtexec's spellings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Sequence, Tuple

from edgedla.errors import UsageError
from edgedla.text.printable import Fields, Word

#: trtexec's type prefix by TensorRT's DataType name.
TYPE_PREFIX: Dict[str, str] = {
    "FLOAT": "fp32",
    "HALF": "fp16",
    "BF16": "bf16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}

#: From this release on, trtexec takes the element type from the network, and the option holds only the format.
NO_TYPE_PREFIX_FROM = (11,)


class TensorFormat(Word):
    """The formats that matter for the DLA. Values are the names of `tensorrt.TensorFormat`.

    Layouts of a (N, C, H, W) tensor (NvInfer.h 8.4 to 11.1, developer guides 8.4 to 8.6.1):

    - LINEAR      [N][C][H][W]
    - DLA_LINEAR  [N][C][H][W'], W' the smallest count >= W whose row is a multiple of 64 bytes
    - DLA_HWC4    [N][H][W'][C'], C 1, 3 or 4, C' 1 or 4; rows a multiple of 32 bytes on Xavier, 64 on Orin; inputs only
    - CHW4        [N][(C+3)/4][H][W'][4]; deprecated on the DLA since 8.0
    - CHW16       [N][(C+15)/16][H][W][16]; on the DLA for FP16
    - CHW32       [N][(C+31)/32][H][W][32]; on the DLA for INT8
    """

    LINEAR = "LINEAR"
    CHW4 = "CHW4"
    CHW16 = "CHW16"
    CHW32 = "CHW32"
    DLA_LINEAR = "DLA_LINEAR"
    DLA_HWC4 = "DLA_HWC4"

    @property
    def number(self) -> int:
        """The value of TensorRT's enumeration; allowed_formats is a mask of `1 << number`."""
        return _NUMBER[self]

    @property
    def spelling(self) -> str:
        """trtexec's word for it: chw, chw4, chw16, chw32, dla_linear, dla_hwc4."""
        return "chw" if self is TensorFormat.LINEAR else self.value.lower()


_NUMBER = {
    TensorFormat.LINEAR: 0,
    TensorFormat.CHW4: 3,
    TensorFormat.CHW16: 4,
    TensorFormat.CHW32: 5,
    TensorFormat.DLA_LINEAR: 9,
    TensorFormat.DLA_HWC4: 10,
}
_BY_WORD = {f.spelling: f for f in TensorFormat}
# trtexec 8.4's spelling of the standalone format; older scripts also use the enumeration's own name.
_BY_WORD.update({"linear": TensorFormat.LINEAR, "hwc4": TensorFormat.DLA_HWC4})
_TYPE_BY_PREFIX = {prefix: name for name, prefix in TYPE_PREFIX.items()}


@dataclass(frozen=True)
class IoFormat(Fields):
    """A format with its element type (TensorRT's DataType name)."""

    format: TensorFormat
    dtype: str

    def __str__(self) -> str:
        return self.trtexec()

    def trtexec(self, trt: Sequence[int] = (10, 3)) -> str:
        """The spelling of --inputIOFormats and --outputIOFormats: `int8:dla_hwc4`, from 11.0 on `dla_hwc4`."""
        word = self.format.spelling
        return word if tuple(trt) >= NO_TYPE_PREFIX_FROM else f"{TYPE_PREFIX.get(self.dtype, self.dtype)}:{word}"


def parse_format(text: str) -> TensorFormat:
    """A format from TensorRT's name (CHW16, kCHW16) or trtexec's word (chw16).

    Raises:
        UsageError: there is no such format.
    """
    word = text.strip().lower()
    name = word[1:] if word.startswith("k") else word
    try:
        return _BY_WORD[name]
    except KeyError:
        raise UsageError(f"unknown tensor format {text!r}", allowed=", ".join(sorted(f.spelling for f in TensorFormat)))


def parse_io_format(text: str, dtype: str = "FLOAT") -> IoFormat:
    """`type:format` or, from trtexec 11.0 on, only the format; `dtype` is used if no type is written.

    Raises:
        UsageError: unknown type or format.
    """
    prefix, colon, word = text.rpartition(":")
    if colon:
        key = prefix.strip().lower()
        if key not in _TYPE_BY_PREFIX:
            raise UsageError(f"unknown element type {prefix!r} in {text!r}", allowed=", ".join(sorted(_TYPE_BY_PREFIX)))
        dtype = _TYPE_BY_PREFIX[key]
    return IoFormat(parse_format(word), dtype)


def parse_io_formats(text: str, dtype: str = "FLOAT") -> Tuple[IoFormat, ...]:
    """A comma-separated list in trtexec's form, one entry per tensor in the network's order."""
    return tuple(parse_io_format(part, dtype) for part in text.split(",") if part.strip())
