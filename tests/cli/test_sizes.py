"""Ranges in `--shapes` of `deploy`: an engine per size, or a refusal that says why."""

from __future__ import annotations

from typing import Any, List

import pytest

from edgedla.cli.deploy.sizes import MOST_SIZES, parse_sizes
from edgedla.errors import UsageError


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("x:1x3x8x8", [{"x": [1, 3, 8, 8]}]),
        ("1..2x3", [{"": [1, 3]}, {"": [2, 3]}]),
        ("1x3x224..416/64x224", [{"": [1, 3, n, 224]} for n in (224, 288, 352, 416)]),
        # The last value is the last step that the range holds.
        ("1..6/4", [{"": [1]}, {"": [5]}]),
        ("a:1x8..9,b:1x8..9", [{"a": [1, n], "b": [1, n]} for n in (8, 9)]),
        # Squares: equal ranges vary together.
        ("8..9x8..9", [{"": [8, 8]}, {"": [9, 9]}]),
        ("a:1..2x8..9", [{"a": [b, n]} for b in (1, 2) for n in (8, 9)]),
        ("'1..2,b':8..9", [{"1..2,b": [8]}, {"1..2,b": [9]}]),
        (f"1..{MOST_SIZES}", [{"": [n]} for n in range(1, MOST_SIZES + 1)]),
    ],
)
def test_a_size_range_expands_to_its_sizes(text: str, sizes: List[Any]) -> None:
    assert list(parse_sizes(text)) == sizes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"1..{MOST_SIZES + 1}", "no dynamic dimensions"),
        ("1x3x224..448x224..449", "50850 sizes"),
        ("8..4x3", "is not a range"),
        ("0..4x3", "is not a range"),
        ("1..4/0x3", "is not a range"),
        ("1..x3", "is not a shape"),
    ],
)
def test_an_invalid_size_range_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_sizes(text)
