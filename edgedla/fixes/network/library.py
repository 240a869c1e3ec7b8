"""The one place that imports onnx-ir, with a clear error if that fails."""

from __future__ import annotations

import logging
import sys
from typing import Any

from edgedla.errors import EnvironmentMissing, need_python
from edgedla.fixes.network.lazy_sympy import sympy_on_demand

#: onnx-ir 1.x has no release for an older Python.
MINIMUM_PYTHON = (3, 10)
_SILENT = logging.NullHandler()
#: The module, once it is imported as wanted: a search asks a thousand times.
_ready: Any = None


def onnx_ir() -> Any:
    """The module onnx_ir.

    Raises:
        EnvironmentMissing: Python is too old for onnx-ir, or onnx-ir is not installed.
    """
    global _ready
    if _ready is not None and sys.modules.get("onnx_ir") is _ready:
        return _ready
    need_python(
        MINIMUM_PYTHON,
        "rewriting a model",
        hint="The library that edits the model, onnx-ir, has no release for older ones. Fix the model on a laptop and "
        "copy the result to the board, where `edgedla build` and `edgedla run` work with Python 3.8.",
    )
    # Without a handler onnx-ir logs oddities of a model to stderr, with unescaped names. edgedla reports them itself.
    logging.getLogger("onnx_ir").addHandler(_SILENT)
    try:
        with sympy_on_demand():
            import onnx_ir
    except ImportError as e:
        raise EnvironmentMissing(
            f"rewriting a model needs onnx-ir, which cannot be imported: {e}", hint="pip install 'edgedla[fix]'"
        ) from e
    _ready = onnx_ir
    return onnx_ir
