"""ONNX's protobuf classes without the rest of the onnx package, whose import takes longer than reading most models."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

MODULE = "onnx.onnx_ml_pb2"


def model_proto() -> Any:
    """An empty ModelProto."""
    return _classes().ModelProto()


def _classes() -> Any:
    """The generated module, loaded under its own name so that a later `import onnx` finds the same classes."""
    known = sys.modules.get(MODULE)
    if known is not None:
        return known
    if "onnx" not in sys.modules:
        package = importlib.util.find_spec("onnx")
        for folder in (package.submodule_search_locations or ()) if package else ():
            path = Path(folder) / "onnx_ml_pb2.py"
            spec = importlib.util.spec_from_file_location(MODULE, path) if path.is_file() else None
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                sys.modules[MODULE] = module
                try:
                    spec.loader.exec_module(module)
                except Exception:
                    # A layout that this shortcut does not know: the package itself knows better.
                    del sys.modules[MODULE]
                    break
                return module
    return importlib.import_module(MODULE)
