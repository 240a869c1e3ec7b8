"""JSON as other tools write it: numbers outside a double's range become None."""

from __future__ import annotations

import pytest

from edgedla.records.json_text import parse_json


@pytest.mark.parametrize("word", ["NaN", "nan", "-inf", "1e999", "-1E+400", "1" + "0" * 400, "-" + "9" * 5000])
def test_numbers_outside_a_doubles_range_become_none(word: str) -> None:
    assert parse_json(b'{"a": [%s, 1], "b": 2.5}' % word.encode()) == {"a": [None, 1], "b": 2.5}


def test_large_json_numbers_and_digit_names_are_unchanged() -> None:
    name = "7" * 400
    assert parse_json(f'{{"{name}": 1e308, "n": {10**299}, "x1e999": -0.5}}'.encode()) == {
        name: 1e308,
        "n": 10**299,
        "x1e999": -0.5,
    }
