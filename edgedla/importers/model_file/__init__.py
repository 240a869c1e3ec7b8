"""The ONNX file: bytes, protobuf messages, tensor data, identity."""

from __future__ import annotations
