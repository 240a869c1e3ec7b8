"""Imports PyTorch, and says how to install it if it is missing."""

from __future__ import annotations

from typing import Any

from edgedla.errors import EnvironmentMissing


def import_torch() -> Any:
    """The torch module, for code whose file must load without it.

    Raises:
        EnvironmentMissing: PyTorch is not installed, or its installation is broken.
    """
    try:
        import torch
    except ImportError as e:
        missing = isinstance(e, ModuleNotFoundError) and e.name == "torch"
        what = "PyTorch is not installed" if missing else f"PyTorch cannot be imported: {e}"
        raise EnvironmentMissing(what, hint="pip install 'edgedla[torch]' (Python 3.10 or newer)") from e
    return torch
