"""Late imports and dataclasses of a bundle: what a pipeline never uses is never made. `lean` inserts them.

Most modules are only imported, not used: outputs, decoders and readers of other pipelines. Standard library and NumPy only.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
from types import ModuleType
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple


class Unread(ModuleType):
    """Stands for a module that libraries import but seldom use; the first use loads it."""

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        # Threads may get here at once: the import lock makes them wait for each other.
        if sys.modules.get(name) is self:
            sys.modules.pop(name, None)
        return getattr(importlib.import_module(name), attribute)


def leave_unread(names: Iterable[str]) -> None:
    for name in names:
        sys.modules.setdefault(name, Unread(name))


class Annotation:
    """Stands for a type used only in annotations; each of its attributes is itself."""

    def __class_getitem__(cls, item: Any) -> type:
        return cls


class Types(Unread):
    """Stands for a module of types. numpy.linalg uses its NDArray in annotations; any other use loads the module."""

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__path__":
            # `from numpy._typing import NDArray` checks whether NDArray may be a submodule.
            raise AttributeError(attribute)
        return Annotation if attribute == "NDArray" else super().__getattr__(attribute)


#: dataclasses, NumPy and linecache import these for features that a pipeline does not use: signatures, pickled arrays,
#: system reports, source lines in tracebacks, `numpy.info`.
leave_unread(("ast", "inspect", "pickle", "platform", "textwrap", "tokenize"))
sys.modules.setdefault("numpy._typing", Types("numpy._typing"))
#: These only attach NumPy's documentation to its functions, which `python -OO` omits too.
_DOCS = [f"numpy.{core}.{part}" for core in ("_core", "core") for part in ("_add_newdocs", "_add_newdocs_scalars")]
for _name in _DOCS:
    sys.modules.setdefault(_name, ModuleType(_name))
#: Parts of NumPy that NumPy 1 imports at its start.
_PARTS = ("ctypeslib", "fft", "ma", "polynomial", "random")
leave_unread(f"numpy.{part}" for part in _PARTS)
import dataclasses  # noqa: E402

import numpy as np  # noqa: E402

for _part in _PARTS:
    if _part not in vars(np):
        # NumPy 2 itself loads the part on first use, and needs the real module.
        sys.modules.pop(f"numpy.{_part}", None)
for _name in _DOCS:
    if _name.rpartition(".")[0] not in sys.modules:
        # NumPy 1 has numpy.core, NumPy 2 numpy._core.
        sys.modules.pop(_name, None)


class Late:
    """Stands for an import until it is called, an attribute is read or isinstance is checked; then replaces itself."""

    __slots__ = ("_module", "_name", "_bound", "_names")

    def __init__(self, module: str, name: str, bound: str, names: Dict[str, Any]) -> None:
        self._module, self._name, self._bound, self._names = module, name, bound, names

    def _load(self) -> Any:
        value: Any = importlib.import_module(self._module)
        if self._name:
            try:
                value = getattr(value, self._name)
            except AttributeError:
                # A submodule of that package.
                value = importlib.import_module(f"{self._module}.{self._name}")
        if self._names.get(self._bound) is self:
            self._names[self._bound] = value
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._load()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._load())

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._load())


def late(names: Dict[str, Any], module: str, *imports: str) -> None:
    """Binds what `from MODULE import IMPORTS` would bind in the namespace `names`; " as NAME" binds the module itself."""
    for text in imports:
        name, _, other = text.partition(" as ")
        names[other or name] = Late(module, name, other or name, names)


class Pattern:
    """`re.compile` on first use: compiling takes longer than most uses."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)
        return value


class _Fields:
    """`__dataclass_fields__` of a class that is not yet a dataclass; the first access makes it one."""

    def __init__(self, cls: type, options: Dict[str, Any]) -> None:
        self._class, self.options, self.ready = cls, options, False

    def __get__(self, instance: object, owner: type) -> Any:
        self.make()
        return self._class.__dict__["__dataclass_fields__"]

    def make(self) -> None:
        """Turns the class into a dataclass; concurrent threads wait for each other."""
        with _LOCK:
            if self._class.__dict__["__dataclass_fields__"] is self:
                _make(self._class, self.options, self.ready)


#: Reentrant, because making a class may read the fields of its bases.
_LOCK = threading.RLock()
#: Attributes of the class itself, not to be overwritten from the copy.
_OWN = frozenset({"__init__", "__dataclass_fields__", "__dict__", "__weakref__"})


def dataclass(cls: Optional[type] = None, **options: Any) -> Any:
    """`dataclasses.dataclass`, with methods made with the first instance: making them is most of an import's cost.

    Fields of a frozen class can be set here: the tests of the full package ensure that nothing does.
    """

    def wrap(cls: type) -> type:
        # Without a docstring, dataclasses would build one from the constructor's signature.
        cls.__doc__ = cls.__doc__ or cls.__name__
        if "__init__" in cls.__dict__ or options.get("order"):
            return dataclasses.dataclass(**options)(cls)
        fields = _Fields(cls, options)

        def first(self: Any, *args: Any, **kwargs: Any) -> None:
            fields.make()
            cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

        cls.__init__ = first  # type: ignore[misc]
        cls.__dataclass_fields__ = fields  # type: ignore[attr-defined]
        return cls

    return wrap if cls is None else wrap(cls)


def _make(cls: Any, options: Dict[str, Any], has_constructor: bool) -> None:
    """Compiles the constructor; the other methods are functions shared by all classes, which need no compilation.

    `dataclasses` works on a copy, so that the class is complete at every moment.
    """
    body = {name: value for name, value in cls.__dict__.items() if name not in _OWN}
    made: Any = dataclasses.dataclass(init=not has_constructor, repr=False, eq=False)(
        type(cls)(cls.__name__, cls.__bases__, body)
    )
    fields = dataclasses.fields(made)
    for field in fields:
        if field.name in cls.__dict__:
            if field.name in made.__dict__:
                setattr(cls, field.name, made.__dict__[field.name])
            else:
                delattr(cls, field.name)
    _methods(cls, [f.name for f in fields if f.repr], [f.name for f in fields if f.compare], options)
    cls.__dataclass_params__, cls.__dataclass_fields__ = made.__dataclass_params__, made.__dataclass_fields__
    if not has_constructor:
        cls.__init__ = made.__init__


def ready(cls: Any, constructor: Callable[[type, object], Any], shown: Sequence[str], compared: Sequence[str]) -> None:
    """Gives a late dataclass the constructor that `lean` has written, so that the start compiles none."""
    fields = cls.__dict__["__dataclass_fields__"]
    if isinstance(fields, _Fields):
        cls.__init__, fields.ready = constructor(cls, dataclasses.MISSING), True
        _methods(cls, shown, compared, fields.options)


def _methods(cls: Any, shown: Sequence[str], compared: Sequence[str], options: Dict[str, Any]) -> None:
    if "__repr__" not in cls.__dict__:
        cls.__repr__ = lambda self: f"{cls.__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"
    if options.get("eq", True) and "__eq__" not in cls.__dict__:
        _compare(cls, compared, bool(options.get("frozen")))


def _compare(cls: Any, names: Sequence[str], hashed: bool) -> None:
    def values(instance: object) -> Tuple[Any, ...]:
        return tuple(getattr(instance, name) for name in names)

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    cls.__eq__ = equal
    if cls.__dict__.get("__hash__") is None:
        cls.__hash__ = (lambda self: hash(values(self))) if hashed else None
