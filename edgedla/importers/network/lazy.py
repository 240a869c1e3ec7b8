"""NumPy comes in with the first value that has to be worked out: many networks never need one, and its import is slow."""

from __future__ import annotations

from typing import Any

#: Values of more elements than this are not worked out: nothing that decides dims or placement needs them.
MAX_FOLDED_ELEMENTS = 65536
#: Floating-point values beyond this are not even read: none of them ever decides a dim.
MAX_READ_FLOATS = 512

_module: Any = None


def fold() -> Any:
    """The module edgedla.importers.network.fold."""
    global _module
    if _module is None:
        from edgedla.importers.network import fold as module

        _module = module
    return _module
