"""Late imports replace themselves on first use; late dataclasses equal those of `dataclasses`."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from typing import Any, Dict, List

import pytest

from edgedla.bundles.late import dataclass, late, leave_unread


def test_a_late_import_is_made_by_its_first_use() -> None:
    names: Dict[str, Any] = {}
    sys.modules.pop("colorsys", None)
    late(names, "colorsys", " as colorsys", "rgb_to_hsv as hsv")
    assert "colorsys" not in sys.modules
    assert names["hsv"](0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert names["hsv"] is sys.modules["colorsys"].rgb_to_hsv
    assert names["colorsys"].rgb_to_hsv is names["hsv"]


def test_late_imports_support_isinstance_and_submodules() -> None:
    names: Dict[str, Any] = {}
    late(names, "fractions", "Fraction")
    assert not isinstance(1.5, (names["Fraction"], str))
    assert issubclass(names["Fraction"], names["Fraction"])
    late(names, "xml.dom", "minidom")
    assert names["minidom"].parseString("<a/>").documentElement.tagName == "a"


def test_a_lazy_module_is_loaded_at_its_first_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    leave_unread(("colorsys", "json"))
    import colorsys

    assert "rgb_to_hsv" not in vars(colorsys)
    assert colorsys.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert colorsys.rgb_to_hsv is sys.modules["colorsys"].rgb_to_hsv
    assert vars(sys.modules["colorsys"])["rgb_to_hsv"]
    with pytest.raises(AttributeError):
        colorsys.nothing  # type: ignore[attr-defined]  # noqa: B018
    # What is there already stays.
    assert type(sys.modules["json"]) is type(sys)


def test_a_lazy_module_is_loaded_once_by_concurrent_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    leave_unread(("colorsys",))
    import colorsys

    start, read = threading.Barrier(8), []  # type: threading.Barrier, List[Any]

    def ask() -> None:
        start.wait()
        read.append(colorsys.hsv_to_rgb)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [sys.modules["colorsys"].hsv_to_rgb] * 8


def test_a_missing_lazy_module_is_named() -> None:
    names: Dict[str, Any] = {}
    late(names, "edgedla.no_such_module", "anything")
    with pytest.raises(ImportError) as caught:
        names["anything"]()
    assert caught.value.name == "edgedla.no_such_module"


def classes(make: Any) -> List[Any]:
    @make(frozen=True)
    class Base:
        a: int
        b: List[int] = dataclasses.field(default_factory=list)
        c: str = dataclasses.field(default="x", compare=False, repr=False)

    @make
    class Below(Base if make is not dataclasses.dataclass else object):  # type: ignore[misc]
        d: float = 1.0

        def __post_init__(self) -> None:
            object.__setattr__(self, "d", self.d * 2)

    @make(eq=False)
    class Identity:
        a: int = 3

    return [Base, Below, Identity]


@pytest.mark.parametrize("arguments", [{"a": 1}, {"a": 1, "b": [2]}, {"a": 1, "c": "y"}, {"a": 0, "b": []}])
def test_lazy_dataclasses_behave_like_dataclasses(arguments: Dict[str, Any]) -> None:
    ours, theirs = classes(dataclass)[0], classes(dataclasses.dataclass)[0]
    one, other = ours(**arguments), theirs(**arguments)
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert repr(one) == repr(other)
    assert (one == ours(1)) == (other == theirs(1))
    assert one != other
    changed = dataclasses.replace(one, a=5)
    assert (changed.a, changed.c) == (5, one.c)
    assert not hasattr(ours, "b")
    assert ours.c == "x"


def test_lazy_dataclasses_have_fields_before_the_first_instance() -> None:
    assert [f.name for f in dataclasses.fields(classes(dataclass)[0])] == ["a", "b", "c"]
    assert dataclasses.is_dataclass(classes(dataclass)[2])


def test_lazy_frozen_dataclasses_hash_by_value_and_eq_false_ones_by_identity() -> None:
    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 0

    assert hash(Point(1)) == hash(Point(1, 0))
    assert len({Point(1), Point(1), Point(2)}) == 2
    identity = classes(dataclass)[2]
    assert identity() != identity()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()


def test_lazy_dataclasses_inherit_fields_and_run_post_init() -> None:
    below = classes(dataclass)[1]
    made = below(1, d=2.0)
    assert (made.a, made.b, made.d) == (1, [], 4.0)
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def test_concurrent_first_instances_of_a_lazy_dataclass_all_succeed() -> None:
    for _ in range(50):
        cls, made = classes(dataclass)[0], []  # type: Any, List[Any]
        gate = threading.Barrier(4)

        def one(cls: Any = cls, made: List[Any] = made, gate: threading.Barrier = gate) -> None:
            gate.wait()
            made.append(cls(7))

        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [cls(7)] * 4


def test_numpy_computes_with_its_typing_and_docs_left_unloaded() -> None:
    program = """
import sys
from edgedla.bundles import late
import numpy as np
types = sys.modules["numpy._typing"]
assert type(types) is late.Types, types
assert "ArrayLike" not in vars(types)
assert np.allclose(np.linalg.svd(np.diag([3.0, 2.0]))[1], [3, 2])
sign, log = np.linalg.slogdet(np.eye(2))
assert (sign, log) == (1, 0)
import numpy.typing
from typing import List, Union
assert Union[numpy.typing.ArrayLike, None]
assert sys.modules["numpy._typing"] is not types
assert np.ma.masked_array([1, 2], [True, False]).sum() == 2
assert np.random.default_rng(0).random() < 1
assert np.add(1, 2) == 3
import textwrap
assert textwrap.dedent("  a") == "a"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
