"""A stand-in for sympy while onnx-ir is imported: half a second that only models with symbolic sizes need."""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Iterator

_NAME = "sympy"


@contextmanager
def sympy_on_demand() -> Iterator[None]:
    """Modules that import sympy meanwhile get a stand-in that imports it at the first use; nothing changes if it is there already.

    Outside, `import sympy` gives sympy itself.
    """
    if _NAME in sys.modules:
        yield
        return
    stand_in = _StandIn(_NAME)
    sys.modules[_NAME] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(_NAME) is stand_in:
            del sys.modules[_NAME]


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Later(name)


class _Later:
    """A class or function of sympy. An expression exists only after something made one, so a question for its class needs no import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *given: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(_NAME), self._name)(*given, **options)

    def __instancecheck__(self, value: Any) -> bool:
        return _NAME in sys.modules and isinstance(value, getattr(sys.modules[_NAME], self._name))
