"""What handing a tensor from one engine to another moves."""

from __future__ import annotations

from edgedla.costs.engines import PRECISION_BYTES
from edgedla.costs.features import up
from edgedla.graph import Tensor

#: TensorRT's format names at a border between engines.
FORMATS = ("LINEAR", "CHW4", "CHW16", "CHW32", "HWC4", "HWC8", "DLA_LINEAR", "DLA_HWC4")

#: Formats that a DLA reads and writes itself, by precision (developer guide, "I/O Formats on DLA").
NATIVE_FORMATS = {"fp16": frozenset({"DLA_LINEAR", "DLA_HWC4", "CHW16"}), "int8": frozenset({"DLA_LINEAR", "DLA_HWC4", "CHW32"})}

#: Channels of one vector of the DLA's own formats: CHW16 at FP16, CHW32 at INT8.
VECTOR_CHANNELS = {"fp16": 16, "int8": 32}


def packed_bytes(tensor: Tensor, precision: str) -> float:
    """Bytes of a tensor in the DLA's own format: channels rounded up to whole vectors."""
    c, h, w = tensor.chw
    vectors = up(max(c, 1), VECTOR_CHANNELS[precision])
    return float(tensor.volume // max(c * h * w, 1) * vectors * h * w * PRECISION_BYTES[precision])


def reformat_bytes(tensor: Tensor, precision: str) -> float:
    """Bytes that a reformat between a LINEAR FP32 tensor and the DLA's own format reads and writes."""
    return tensor.size_bytes(4) + packed_bytes(tensor, precision)


def own_format(precision: str) -> str:
    """The format that a DLA computes in."""
    return f"CHW{VECTOR_CHANNELS[precision]}"
