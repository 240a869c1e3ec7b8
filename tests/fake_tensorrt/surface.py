"""Classes with exactly the surface of a TensorRT release: other names, arguments or read-only writes fail as there.

The recorded surfaces (tests/golden/tensorrt) are compared with the real bindings by tests/contract.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, List

TESTS = Path(__file__).resolve().parents[1]


#: Releases of Jetsons whose patch no wheel has -> the wheel's version.
RECORDED = {"8.4.1": "8.4.1.5", "8.5.2": "8.5.2.2"}


def load_surface(version: str) -> Dict[str, Any]:
    """The recorded surface of a release, or of the patch that stands for it."""
    file = TESTS / f"golden/tensorrt/surface-{RECORDED.get(version, version)}.json"
    surface: Dict[str, Any] = json.loads(file.read_text())
    return {**surface, "version": version}


class Member:
    """An enum member as pybind11 makes it: comparable with its own kind, convertible to int, printed with its class."""

    def __init__(self, cls: str, name: str, value: int) -> None:
        self.cls, self.name, self.value = cls, name, value

    def __int__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"{self.cls}.{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Member) and (self.cls, self.name) == (other.cls, other.name)

    def __hash__(self) -> int:
        return hash((self.cls, self.name))


def make_enum(name: str, members: Dict[str, int]) -> type:
    values = {m: Member(name, m, value) for m, value in members.items()}
    return type(name, (), {**values, "__members__": values})


def check_arguments(where: str, overloads: List[List[str]], args: tuple, kwargs: Dict[str, Any]) -> None:
    """Raises the TypeError that pybind11 raises where no overload takes these arguments."""
    for overload in overloads:
        names = [p.rstrip("=") for p in overload]
        needed = [p for p in overload[len(args) :] if not p.endswith("=")]
        given_twice = set(names[: len(args)]) & set(kwargs)
        if len(args) <= len(names) and set(kwargs) <= set(names) and not given_twice and set(needed) <= set(kwargs):
            return
    raise TypeError(f"{where}(): incompatible function arguments: {args} {sorted(kwargs)}; allowed: {overloads}")


def make_class(name: str, entry: Dict[str, Any], world: Any, behaviour: Dict[str, Callable[..., Any]]) -> type:
    """A class whose methods check their arguments, record the call, and do what `behaviour["Class.method"]` says."""

    def label(self: Any) -> str:
        """Layers and tensors are told apart by their names, of the rest there is one each."""
        own = self.__dict__.get("_name") if name in ("ILayer", "ITensor") else None
        return f"{name}[{own}]" if own else name

    def method(member: str, overloads: List[List[str]]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            check_arguments(f"{name}.{member}", overloads, args, kwargs)
            if member != "__init__":
                world.record(f"{label(self)}.{member}", args, kwargs)
            act = behaviour.get(f"{name}.{member}")
            return act(self, *args, **kwargs) if act else None

        return call

    def attribute(member: str, access: str) -> property:
        def read(self: Any) -> Any:
            compute = behaviour.get(f"{name}.{member}")
            return compute(self) if compute else self.__dict__.get("_" + member)

        def write(self: Any, value: Any) -> None:
            world.record(f"{label(self)}.{member} =", (value,), {})
            self.__dict__["_" + member] = value

        return property(read, write if access == "rw" else None)

    def set_attribute(self: Any, member: str, value: Any) -> None:
        # A pybind11 object takes no new attributes; a Python class derived from one does.
        if type(self) is cls and not member.startswith("_") and member not in entry["properties"]:
            raise AttributeError(f"{name!r} object has no attribute {member!r}")
        object.__setattr__(self, member, value)

    body: Dict[str, Any] = {m: method(m, overloads) for m, overloads in entry["methods"].items()}
    body.update({m: attribute(m, access) for m, access in entry["properties"].items()})
    body["__setattr__"] = set_attribute
    if name == "IHostMemory":
        # The real class has the buffer protocol, which Python code cannot give; bytes() is all that is done with it.
        body["__bytes__"] = lambda self: behaviour["IHostMemory.__bytes__"](self)
    if name == "EngineInspector":
        ends = lambda self: behaviour.get(f"{name}.__del__", lambda _: None)(self)  # noqa: E731
        body["__del__"] = ends
    cls = type(name, (), body)
    return cls
