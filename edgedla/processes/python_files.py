"""Importing a Python file by its path, and a function of the user's by `module:function` or `FILE.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Callable, Union

from edgedla.errors import UsageError, described, own_code
from edgedla.io.files import sha256_of


def import_file(path: Union[str, os.PathLike[str]], name: str) -> ModuleType:
    """The module of the file, as `name` in sys.modules: dataclasses look their module up there.

    Raises:
        FileNotFoundError: no such file. And whatever the file raises.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        # As an import statement: what failed is not there.
        sys.modules.pop(name, None)
        raise
    return module


def function_of(text: str, what: str) -> Callable[..., Any]:
    """The function that `module:function` or `FILE.py:function` names.

    Args:
        what: what it is to the user, for errors: "decoder".

    Raises:
        UsageError: no such module, file or function, or one that fails as it is imported.
    """
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise UsageError(f"the {what} {text!r} names no function", allowed="module:function, or FILE.py:function")
    if place.endswith(".py") and not os.path.isfile(place):
        raise UsageError(f"no such file: the {what} cannot be imported", where=place)
    hint = None if place.endswith(".py") else "is its folder on PYTHONPATH? FILE.py:function needs none"
    with own_code(lambda e: UsageError(f"the {what} cannot be imported: {described(e)}", where=text, hint=hint)):
        try:
            module = import_file(place, _name(place, what)) if place.endswith(".py") else importlib.import_module(place)
        except SyntaxError as e:
            raise UsageError(f"line {e.lineno} is not valid Python: {e.msg}", where=e.filename or place) from e
    function = getattr(module, name, None)
    if not callable(function):
        missing = "is not a function" if hasattr(module, name) else "is not there"
        names = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        raise UsageError(f"{name} {missing}", where=place, allowed=", ".join(names[:10]) or "a function of this name")
    return function


def source_digest(function: Callable[..., Any]) -> str:
    """SHA-256 of the file in which the function stands; "" where it has none. What the file imports does not count."""
    import inspect

    try:
        return sha256_of(inspect.getfile(function))
    except (TypeError, OSError):
        return ""


def _name(path: str, what: str) -> str:
    return f"edgedla_{what}_{os.path.splitext(os.path.basename(path))[0]}"
