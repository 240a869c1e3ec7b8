"""Arguments of the Python interface, held against their annotations: what does not fit ends in words, not inside."""

from __future__ import annotations

import collections.abc
import dataclasses
import errno
import functools
import inspect
import os
import reprlib
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Mapping, Tuple, TypeVar, Union, cast, get_type_hints

from edgedla.errors import UsageError, current_folder_is_gone, from_os_error

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60

F = TypeVar("F", bound=Callable[..., Any])
#: What a long call tells its caller: (phase, pieces done, pieces in all).
Progress = Callable[[str, int, int], None]

_WORDS = {str: "text", bytes: "bytes", bool: "True or False", int: "a whole number", float: "a number"}
_SEQUENCES = (collections.abc.Sequence, list, tuple)


def typed(function: F) -> F:
    """A function whose arguments are held against their annotations first.

    Raises (when called):
        UsageError: an argument is of another type than its annotation allows.
        EnvironmentMissing: a path is too long, or relative to a current folder that was removed.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Python itself says which argument is missing or unknown.
        given, hints = signature.bind(*args, **kwargs), _hints(function)
        require_types(given.arguments, hints)
        for name, value in given.arguments.items():
            given.arguments[name] = plain(value, hints.get(name, Any))
        try:
            return function(*given.args, **given.kwargs)
        except OSError as e:
            # Any other may come from a function that the caller passed in: the caller gets it unchanged.
            if e.errno == errno.ENAMETOOLONG or current_folder_is_gone(e):
                raise from_os_error(e) from e
            raise

    return cast(F, call)


def require_field_types(request: object, **names: Any) -> None:
    """The same for the fields of a dataclass, before it uses them.

    Args:
        names: what the annotations name that the dataclass's module imports for type checkers alone.

    Raises:
        UsageError: a field is of another type than its annotation allows.
    """
    hints = _hints(cast(Any, type(request)), **names)
    fields = {f.name: getattr(request, f.name) for f in dataclasses.fields(cast(Any, request))}
    require_types(fields, hints)
    for name, value in fields.items():
        of_python = plain(value, hints.get(name, Any))
        if of_python is not value:
            object.__setattr__(request, name, of_python)


def plain(value: Any, hint: Any = Any) -> Any:
    """Python's own numbers, lists and paths in place of others that fit the hint, as NumPy's, which no JSON document can hold."""
    origin = getattr(hint, "__origin__", None)
    if origin is Union:
        return plain(value, next((part for part in hint.__args__ if fits(value, part)), Any))
    if origin in _SEQUENCES and hint.__args__[0] is not Any:
        return _plain_list(value, hint.__args__[0])
    if origin is collections.abc.Mapping:
        of_python = {key: plain(x, hint.__args__[1]) for key, x in value.items()}
        return of_python if any(of_python[key] is not x for key, x in value.items()) else value
    if isinstance(value, os.PathLike) and not isinstance(value, Path):
        return Path(os.fsdecode(value))
    if isinstance(value, Integral) and not isinstance(value, int):
        return int(value)
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    return float(value) if isinstance(value, Real) and not isinstance(value, (int, float)) else value


def _plain_list(value: Any, of: Any) -> Any:
    """The list itself if nothing in it changes."""
    if not isinstance(value, collections.abc.Sequence):
        return value.tolist()
    of_python = [plain(x, of) for x in value]
    if all(a is b for a, b in zip(of_python, value)):
        return value
    return tuple(of_python) if isinstance(value, tuple) else of_python


def require_types(given: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raises UsageError for the first of the given values that does not fit its hint; in a bundle, functions have none."""
    for name, value in given.items():
        hint = hints.get(name, Any)
        if not fits(value, hint):
            raise UsageError(f"{_SHORT.repr(value)} of type {_type_of(value)}", where=name, allowed=in_words(hint))
        if Path in getattr(hint, "__args__", ()) and isinstance(value, str) and not _can_be_a_path(value):
            raise UsageError(f"{_SHORT.repr(value)} cannot name a file", where=name)


def _can_be_a_path(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _type_of(value: Any) -> str:
    """ "int", "list of str", "dict of str to int": of a list, what is wrong with it is mostly what it holds."""

    def names(values: Iterable[Any]) -> str:
        return " and ".join(sorted({type(v).__name__ for v in values}))

    name = type(value).__name__
    if isinstance(value, collections.abc.Mapping) and value:
        return f"{name} of {names(value)} to {names(value.values())}"
    if isinstance(value, (list, tuple, set, frozenset)) and value:
        return f"{name} of {names(value)}"
    return name


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says. NumPy's numbers are numbers; True is none; a text is no list."""
    origin = getattr(hint, "__origin__", None)
    parts: Tuple[Any, ...] = getattr(hint, "__args__", ())
    if hint is Any:
        return True
    if origin is Union:
        return any(fits(value, part) for part in parts)
    if origin in _SEQUENCES:
        listed = isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes, bytearray))
        # An array of numbers is no Sequence for Python, but is one for whoever passes it.
        return (listed or len(getattr(value, "shape", ())) == 1) and all(fits(x, parts[0]) for x in value)
    if origin is collections.abc.Mapping:
        of_key, of_value = parts
        return isinstance(value, collections.abc.Mapping) and all(fits(k, of_key) and fits(v, of_value) for k, v in value.items())
    if hint is int or hint is float:
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    if hint is bool:
        # NumPy's, by its name: NumPy is not imported here.
        return type(value).__name__ in ("bool", "bool_")
    plain = origin or hint
    return isinstance(value, os.PathLike if issubclass(plain, os.PathLike) else plain)


def in_words(hint: Any) -> str:
    """An annotation for people: Optional[Sequence[int]] is "a list of whole numbers or None"."""
    origin = getattr(hint, "__origin__", None)
    parts: Tuple[Any, ...] = getattr(hint, "__args__", ())
    if hint in _WORDS:
        return _WORDS[hint]
    if hint is Any:
        return "anything"
    if hint is type(None):
        return "None"
    if origin is Union:
        # None is the default: it comes last.
        ways = list(dict.fromkeys(in_words(p) for p in sorted(parts, key=lambda p: p is type(None))))
        return " or ".join([", ".join(ways[:-1]), ways[-1]] if len(ways) > 1 else ways)
    if origin in _SEQUENCES:
        return "a list" if parts[0] is Any else f"a list of {_several(in_words(parts[0]))}"
    if origin is collections.abc.Mapping:
        return f"a mapping of {_several(in_words(parts[0]))} to {_several(in_words(parts[1]))}"
    plain = origin or hint
    if plain is collections.abc.Callable:
        return "something that can be called"
    return "a path" if issubclass(plain, os.PathLike) else str(plain.__name__)


def _several(one: str) -> str:
    """The plural of a type's words: "a list of numbers" is "lists of numbers"."""
    for word, plural in (
        ("a list of", "lists of"),
        ("a whole number", "whole numbers"),
        ("a number", "numbers"),
        ("text", "texts"),
        ("a path", "paths"),
    ):
        if one.startswith(word):
            return plural + one[len(word) :]
    return one


@functools.lru_cache(maxsize=None)
def _hints(of: Any, **names: Any) -> Dict[str, Any]:
    return get_type_hints(of, localns=names or None)
