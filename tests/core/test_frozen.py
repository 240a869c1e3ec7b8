"""Frozen dataclasses of this package against the library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any, Callable, ClassVar, Dict, List, Tuple, Type, get_type_hints

import pytest

from edgedla import frozen

FACTORIES: List[Callable[..., Any]] = [dataclasses.dataclass, frozen.dataclass]


def classes(dataclass: Callable[..., Any]) -> Dict[str, Type[Any]]:
    @dataclass(frozen=True)
    class Point:
        """With defaults of every kind."""

        KIND: ClassVar[str] = "point"
        x: int
        name: str = "p"
        seen: List[int] = frozen.field(default_factory=list, compare=False)
        hidden: int = frozen.field(default=0, repr=False, compare=False)
        counted: int = frozen.field(init=False, default=3)

        @property
        def twice(self) -> int:
            return 2 * self.x

    @dataclass(frozen=True)
    class Cube(Point):
        """With a base, and a method that runs last."""

        z: int = 1

        def __post_init__(self) -> None:
            if self.z < 0:
                raise ValueError("z")

    @dataclass(frozen=True, repr=False)
    class Own:
        """With methods of its own."""

        a: Tuple[int, ...] = ()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and len(self.a) == len(other.a)

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True)
    class Empty:
        """Without a field."""

    return {c.__name__: c for c in (Point, Cube, Own, Empty)}


LIBRARY, OURS = (classes(factory) for factory in FACTORIES)
CALLS: List[Tuple[str, Tuple[Any, ...], Dict[str, Any]]] = [
    ("Point", (1,), {}), ("Point", (1, "q", [2], 5), {}), ("Point", (), {"x": 2, "hidden": 9}), ("Cube", (1,), {"z": 4}),
    ("Own", ((1, 2),), {}), ("Own", (), {}), ("Empty", (), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_values_are_the_librarys(name: str, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    theirs, ours = LIBRARY[name](*args, **kwargs), OURS[name](*args, **kwargs)
    assert vars(ours) == vars(theirs)
    assert repr(ours).replace(FACTORIES[1].__module__, "") == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert ours == OURS[name](*args, **kwargs) == copy.copy(ours)
    assert ours != theirs
    if name != "Own":
        assert hash(ours) == hash(theirs)


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_classes_are_the_librarys(name: str) -> None:
    theirs, ours = LIBRARY[name], OURS[name]
    assert [f.name for f in dataclasses.fields(ours)] == [f.name for f in dataclasses.fields(theirs)]
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert get_type_hints(ours.__init__) == get_type_hints(theirs.__init__)
    assert getattr(ours, "__match_args__", None) == getattr(theirs, "__match_args__", None)
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


@pytest.mark.parametrize("of", [LIBRARY, OURS])
def test_no_field_changes(of: Dict[str, Type[Any]]) -> None:
    point = of["Point"](1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del point.name
    assert dataclasses.replace(of["Cube"](1, z=2), x=5).x == 5
    with pytest.raises(ValueError, match="z"):
        of["Cube"](1, z=-1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        of["Point"]()
    assert of["Point"](1).seen is not of["Point"](1).seen


@frozen.dataclass(frozen=True)
class Sent:
    """A class that pickle finds."""

    a: int
    b: Tuple[int, ...] = (1,)


def test_it_is_sent_between_processes() -> None:
    assert pickle.loads(pickle.dumps(Sent(3))) == Sent(3)


def test_a_class_that_is_not_frozen_is_the_librarys() -> None:
    @frozen.dataclass
    class Open:
        a: int

    made = Open(1)
    made.a = 2
    assert made == Open(2)
    assert Open.__setattr__ is object.__setattr__
