"""Frozen dataclasses made in a quarter of the time: a check imports 40 to 150 of them, which took a sixth of it.

The library compiles six methods of each. Here only `__init__` is compiled, and sets fields in half of the time; the rest are closures.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, FrozenInstanceError, asdict, field, fields, replace
from dataclasses import dataclass as of_library
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Sequence, Tuple, Type

__all__ = ("asdict", "dataclass", "field", "fields", "replace")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, *, frozen=False, repr=True):
        """The library's decorator, which makes the classes that are not frozen. `repr`: whether the class gets one."""
        return (lambda cls: _frozen(cls, repr)) if frozen else of_library(cls, repr=repr)


#: The default in a signature of a field that a factory fills.
_MADE: Any = type("Made", (), {"__repr__": lambda self: "<factory>"})()


def _frozen(cls: Type[Any], with_repr: bool) -> Type[Any]:
    # A class without a docstring would get its signature, which takes longer than all the rest.
    cls.__doc__ = cls.__doc__ or cls.__name__
    cls = of_library(init=False, repr=False, eq=False)(cls)
    kept = {name for name, value in vars(cls).items() if value is not None and name != "__init__"}
    kept |= set() if with_repr else {"__repr__"}
    for name, method in {"__init__": _init(cls), **_methods(cls)}.items():
        if name not in kept:
            method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
    return cls


def _init(cls: Type[Any]) -> Callable[..., None]:
    """`__init__`: the values go into the object's dictionary, where `__setattr__` does not forbid them."""
    parameters, lines, defaults, factories = ["self"], ["__values = self.__dict__"], [], {}
    for f in fields(cls):
        value, default = f.name, f.default
        if f.default_factory is not MISSING:
            factories[f.name], default = f.default_factory, _MADE
            value = f"__factories[{f.name!r}]()" + (f" if {f.name} is __made else {f.name}" if f.init else "")
        if f.init:
            parameters.append(f.name)
            defaults += [] if default is MISSING else [default]
        if f.init or default is _MADE:
            lines.append(f"__values[{f.name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    inner = "\n  ".join([f"def __init__({', '.join(parameters)}):", *lines])
    made: Dict[str, Any] = {}
    # The module's names, as type hints are looked up among them.
    exec(f"def make(__factories, __made):\n {inner}\n return __init__", vars(sys.modules[cls.__module__]), made)
    init: Callable[..., None] = made["make"](factories, _MADE)
    init.__defaults__ = tuple(defaults)
    init.__annotations__ = {**{f.name: f.type for f in fields(cls) if f.init}, "return": None}
    return init


def _methods(cls: Type[Any]) -> Dict[str, Callable[..., Any]]:
    """The other methods of a frozen dataclass by name."""
    names, shown = frozenset(f.name for f in fields(cls)), [f.name for f in fields(cls) if f.repr]
    equal = _values([f.name for f in fields(cls) if f.compare])
    hashed = _values([f.name for f in fields(cls) if (f.compare if f.hash is None else f.hash)])

    def same(self: Any, other: object) -> Any:
        return equal(self) == equal(other) if other.__class__ is self.__class__ else NotImplemented

    @recursive_repr()
    def text(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return {
        "__eq__": same,
        "__hash__": lambda self: hash(hashed(self)),
        "__repr__": text,
        "__setattr__": _forbidden(cls, names, "__setattr__", "assign to"),
        "__delattr__": _forbidden(cls, names, "__delattr__", "delete"),
    }


def _forbidden(cls: Type[Any], names: FrozenSet[str], method: str, verb: str) -> Callable[..., None]:
    def forbidden(self: Any, name: str, *value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot {verb} field {name!r}")
        getattr(super(cls, self), method)(name, *value)

    return forbidden


def _values(names: Sequence[str]) -> Callable[[Any], Tuple[Any, ...]]:
    """A function that returns the values of these attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda of: tuple(getattr(of, name) for name in names)
