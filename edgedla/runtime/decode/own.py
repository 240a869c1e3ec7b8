"""A decoder of the user's: `module:function`, or `FILE.py:function`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any, Callable, List

from edgedla.errors import EdgedlaError, RunError, UsageError
from edgedla.python_files import import_file
from edgedla.runtime.frames import Result
from edgedla.runtime.runners.base import describe


def is_own(kind: str) -> bool:
    """True where a `kind` names a function of the user's."""
    return ":" in kind


def load_function(text: str) -> Callable[..., Any]:
    """The function that `module:function` or `FILE.py:function` names.

    Raises:
        UsageError: no such module, file or function, or one that fails as it is imported.
    """
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise UsageError(f"the decoder {text!r}", allowed="module:function, or FILE.py:function")
    try:
        module = _of_file(place) if place.endswith(".py") else importlib.import_module(place)
    except SyntaxError as e:
        raise UsageError(f"line {e.lineno} is no Python: {e.msg}", where=e.filename or place) from e
    except (Exception, SystemExit) as e:
        hint = None if place.endswith(".py") else "is its folder on PYTHONPATH? FILE.py:function needs none"
        raise UsageError(f"the decoder cannot be imported: {describe(e)}", where=text, hint=hint) from e
    function = getattr(module, name, None)
    if not callable(function):
        what = "is no function" if hasattr(module, name) else "is not there"
        names = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        raise UsageError(f"{name} {what}", where=place, allowed=", ".join(names[:10]) or "a function of this name")
    return function


def _of_file(path: str) -> object:
    if not os.path.isfile(path):
        raise FileNotFoundError(path)
    return import_file(path, f"edgedla_decoder_{os.path.splitext(os.path.basename(path))[0]}")


def call(function: Callable[..., Any], name: str, *arguments: object) -> List[Result]:
    """What the user's function makes of the arguments.

    Raises:
        RunError: it fails, ends the process, or returns no results.
    """
    try:
        return checked_results(function(*arguments), name)
    except EdgedlaError:
        raise
    except (Exception, SystemExit) as e:
        raise RunError(f"the decoder fails: {describe(e)}", where=name) from e


def checked_results(returned: object, function: str) -> List[Result]:
    """What the function returned, as results.

    Raises:
        RunError: no list, or one with something that has no `to_dict`.
    """
    if isinstance(returned, (str, bytes)) or not isinstance(returned, Iterable):
        raise RunError(f"it returned {_kind(returned)}", where=function, allowed="a list of results")
    results = list(returned)
    wrong = next((r for r in results if not callable(getattr(r, "to_dict", None))), None)
    if wrong is not None:
        raise RunError(
            f"a result is {_kind(wrong)}", where=function, allowed="Detection, ClassScore, or an object with to_dict()"
        )
    return results


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
