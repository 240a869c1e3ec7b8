"""The host backend: ONNX Runtime with the DLA's precision simulated."""

from __future__ import annotations
