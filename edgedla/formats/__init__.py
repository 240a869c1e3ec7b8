"""Tensor formats of a network's inputs and outputs: their names, memory layouts, and packing."""

from __future__ import annotations

from edgedla.formats.layout import Layout, layout
from edgedla.formats.tensor_format import IoFormat, TensorFormat, parse_format, parse_io_format, parse_io_formats

__all__ = ["IoFormat", "Layout", "TensorFormat", "layout", "parse_format", "parse_io_format", "parse_io_formats"]
