"""The user's functions by name: wrong names are explained, and a failing file leaves no module behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgedla.errors import UsageError, described
from edgedla.processes.python_files import function_of


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("peak", "the metric 'peak' names no function (allowed: module:function, or FILE.py:function)"),
        ("no/such.py:peak", "no/such.py: no such file"),
        ("no_such_module:peak", "is its folder on PYTHONPATH?"),
        ("math:pi", "math: pi is not a function (allowed: acos, "),
    ],
)
def test_an_invalid_function_name_gives_the_reason(text: str, says: str) -> None:
    with pytest.raises(UsageError) as e:
        function_of(text, "metric")
    assert says in str(e.value)


def test_a_failed_import_of_a_file_leaves_no_module(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("raise SystemExit(4)\n")
    with pytest.raises(UsageError, match=r"the metric cannot be imported: SystemExit\(4\)"):
        function_of(f"{own}:peak", "metric")
    assert "edgedla_metric_own" not in sys.modules
    own.write_text("def peak():\n    return 3\n")
    assert function_of(f"{own}:peak", "metric")() == 3


def test_an_exception_whose_repr_fails_has_its_type() -> None:
    class Odd(Exception):
        def __repr__(self) -> str:
            raise RuntimeError

    assert described(Odd()) == "Odd"
    assert described(KeyError("q")) == "KeyError('q')"
