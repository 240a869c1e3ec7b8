"""Q/DQ both ways: a Q/DQ model as plain ONNX with ranges and FP16 nodes, and back."""

from __future__ import annotations

from edgedla.quantization.qdq.insert import with_qdq
from edgedla.quantization.qdq.strip import Stripped, has_qdq, strip_qdq

__all__ = ["Stripped", "has_qdq", "strip_qdq", "with_qdq"]
