"""What ends a user's own code becomes an error of ours; Ctrl-C and our own errors do not."""

from __future__ import annotations

import pytest

from edgedla.errors import BudgetSpent, EdgedlaError, ModelError, RunError, own_code


class Panic(BaseException):
    """As PanicException of libraries in Rust: no Exception."""


@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(0), GeneratorExit(), StopIteration(), Panic("in Rust")])
def test_whatever_ends_the_users_code_becomes_the_named_error(raised: BaseException) -> None:
    with pytest.raises(RunError, match="it fails: ") as e, own_code(lambda e: RunError(f"it fails: {e!r}")):
        raise raised
    assert e.value.__cause__ is raised


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), BudgetSpent("5 s"), ModelError("no such layer")])
def test_an_interruption_and_our_own_errors_stay_as_they_are(raised: BaseException) -> None:
    def failed(error: BaseException) -> EdgedlaError:
        raise AssertionError(error)

    with pytest.raises(type(raised)) as e, own_code(failed):
        raise raised
    assert e.value is raised
