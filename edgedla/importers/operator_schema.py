"""What ONNX says of an operator."""

from __future__ import annotations

from typing import Any

#: The default domain of ONNX, under both of its names.
DEFAULT_DOMAINS = ("", "ai.onnx")
#: Operators that give sizes. What is computed from sizes is no activation; exporters compute it in DOUBLE.
SIZES = frozenset(("Shape", "Size"))


def operator_schema(operator: str, opset: int) -> Any:
    """The onnx.defs.OpSchema of an operator of the default domain; None where the set has no such operator."""
    from onnx import defs

    try:
        return defs.get_schema(operator, opset)
    except defs.SchemaError:
        return None
