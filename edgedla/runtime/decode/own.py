"""A decoder of the user's: `module:function`, or `FILE.py:function`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable, List

from edgedla.errors import RunError, described, own_code
from edgedla.runtime.frames import Result


def is_own(kind: str) -> bool:
    """True if a `kind` names a function of the user."""
    return ":" in kind


def call(function: Callable[..., Any], name: str, *arguments: object) -> List[Result]:
    """Calls the user's function.

    Raises:
        RunError: the function fails, tries to end the process, or does not return a list of results.
    """
    with own_code(lambda e: RunError(f"the decoder fails: {described(e)}", where=name)):
        return checked_results(function(*arguments), name)


def checked_results(returned: object, function: str) -> List[Result]:
    """The function's return value, as results.

    Raises:
        RunError: not a list, or an entry without `to_dict`.
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
