"""What every `to_dict` of a room writes, and which field each entry comes from: one line each, as a golden file holds them.

An object is made without its constructor, each field a stand-in that knows where it came from. So a renamed key, a swapped field
or a lost entry shows, whatever the values are; what the values mean is for other tests.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from typing import Any, Callable, Iterator, List, Mapping, Sequence
from unittest.mock import MagicMock

#: Their modules need what may not be installed, or run as programs.
LEFT_OUT = re.compile(r"\.(\w+_child|from_\w+|answering|__main__|on_dask|start|program|runner|cuda|tensorrt)(\.|$)")


class StandIn(MagicMock):
    """A field: it can be compared, formatted and rounded, has no parts, and all that comes from it has its name."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        # MagicMock gives every instance methods of its own, which hide those of a class.
        self.__str__ = lambda own: origin(own)
        self.__format__ = lambda own, spec: origin(own)
        self.__round__ = lambda own, digits=0: own
        for compared in ("__lt__", "__gt__", "__le__", "__ge__"):
            setattr(self, compared, lambda own, other: False)

    def to_dict(self, *words: Any, **options: Any) -> Any:
        """As every other part, but of the class too: values are written by their type."""
        return self.__getattr__("to_dict")(*words, **options)


def origin(value: Any) -> str:
    """What a value came from, as "latency.best()"; of a plain value itself, of all others their type."""
    if isinstance(value, StandIn):
        found = re.search(r"name='([^']*)'", repr(value))
        return found[1] if found else "?"
    return repr(value) if isinstance(value, (str, bool, int, float, type(None))) else type(value).__name__


def entries(document: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in document.items():
        name = f"{prefix}.{key}" if isinstance(key, str) else f"{prefix}[{origin(key)}]"
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
            name, value = f"{name}[]", value[0]
        if isinstance(value, dict) and value:
            yield from entries(value, name)
        elif key == "schema_version":
            yield f"{name} <- its version"
        else:
            yield f"{name} <- {origin(value)}"


def written(kind: type, lines: List[str]) -> None:
    empty = object.__new__(kind)
    for field in dataclasses.fields(kind):
        object.__setattr__(empty, field.name, StandIn(name=field.name))
    try:
        document = empty.to_dict()
    except Exception:
        # It needs values that mean something: tests of its own make some.
        return
    if isinstance(document, dict):
        lines += entries(document, kind.__name__)


def text_of(room: str) -> str:
    """The lines of all dataclasses of edgedla.`room` with a `to_dict`, sorted by class."""
    package = importlib.import_module(f"edgedla.{room}")
    names = [package.__name__, *(m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))]
    kinds: List[type] = []
    for name in names:
        if not LEFT_OUT.search(name):
            found: Sequence[Any] = list(vars(importlib.import_module(name)).values())
            kinds += [k for k in found if inspect.isclass(k) and k.__module__ == name and hasattr(k, "to_dict")]
    lines: List[str] = []
    for kind in sorted(kinds, key=lambda k: (k.__name__, k.__module__)):
        if dataclasses.is_dataclass(kind):
            written(kind, lines)
    return "\n".join(lines) + "\n"


def check(room: str, golden: Callable[[str, str], None]) -> None:
    golden(f"documents/{room}.txt", text_of(room))
