"""NumPy comes in with the first value that has to be worked out: many networks never need one, and its import is slow."""

from __future__ import annotations

from typing import Any

_module: Any = None


def fold() -> Any:
    """The module edgedla.importers.network.fold."""
    global _module
    if _module is None:
        from edgedla.importers.network import fold as module

        _module = module
    return _module
