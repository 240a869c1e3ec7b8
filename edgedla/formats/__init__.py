"""Tensor formats at the border of a network: what they are, how they lie in memory, packing."""

from __future__ import annotations

from edgedla.formats.layout import Layout, layout
from edgedla.formats.tensor_format import IoFormat, TensorFormat, parse_format, parse_io_format, parse_io_formats

__all__ = ["IoFormat", "Layout", "TensorFormat", "layout", "parse_format", "parse_io_format", "parse_io_formats"]
