"""ONNX's protobuf classes without the rest of the onnx package, whose import takes longer than reading most models."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from typing import Any

MODULE = "onnx.onnx_ml_pb2"
#: The last of the used names that the module defines: without it, the module is still being executed.
_COMPLETE = "ModelProto"
_lock = threading.Lock()


def _new_lock() -> None:
    # A process forked while another thread held the lock would wait for ever.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def model_proto() -> Any:
    """An empty ModelProto."""
    return _classes().ModelProto()


def _classes() -> Any:
    """The generated module, loaded under its own name so that a later `import onnx` finds the same classes."""
    module = sys.modules.get(MODULE)
    if module is None and "onnx" not in sys.modules:
        with _lock:
            module = sys.modules.get(MODULE) or _executed()
    if module is not None and hasattr(module, _COMPLETE):
        return module
    # Another thread may be importing the package: the import system waits until it is done.
    return importlib.import_module(MODULE)


def _executed() -> Any:
    """The module without its package, in sys.modules only when complete; None for an unknown layout of the package.

    A concurrent `import onnx` may execute the file once more: protobuf gives both the same classes.
    """
    package = importlib.util.find_spec("onnx")
    for folder in (package.submodule_search_locations or ()) if package else ():
        path = Path(folder) / "onnx_ml_pb2.py"
        spec = importlib.util.spec_from_file_location(MODULE, path) if path.is_file() else None
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except Exception:
                # Unknown layout: import the package itself.
                return None
            return sys.modules.setdefault(MODULE, module)
    return None
