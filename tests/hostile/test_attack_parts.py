"""Parts of a campaign: every case exactly once, and their figures added up."""

from __future__ import annotations

import argparse
from typing import Any, Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile import attack_parts


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 40))
def test_parts_of_a_campaign_cover_each_case_once(first: int, count: int, parts: int) -> None:
    numbers = range(first, first + count)
    together = [n for part in range(1, parts + 1) for n in attack_parts.numbers_of((part, parts), numbers)]
    assert together == list(numbers)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "-1/4", "1/0", ""])
def test_an_invalid_part_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no part"):
        attack_parts.share(text)


def part(commit: str = "abc", **tally: Any) -> Dict[str, Any]:
    plain = {"seeds": 9, "of": 20, "cases": 10, "exit_codes": {"0": 7, "3": 3}, "most_cpu_s": 1.0, "wrong": 0, "first_wrong": []}
    return {"commit": commit, "versions": {}, "seed": 1, "hours": 0.5, "mutated_models": {**plain, **tally}}


def test_figures_of_parts_are_added() -> None:
    wrong = [{"case": 12, "what": "exit code 70"}]
    figures = attack_parts.merged([part(), part(exit_codes={"0": 9, "70": 1}, most_cpu_s=3.0, wrong=1, first_wrong=wrong)])
    assert figures["mutated_models"] == {
        "seeds": 9,
        "of": 20,
        "cases": 20,
        "exit_codes": {"0": 16, "3": 3, "70": 1},
        "most_cpu_s": 3.0,
        "wrong": 1,
        "first_wrong": wrong,
    }
    assert (figures["parts"], figures["hours"]) == (2, 1.0)


def test_merging_parts_of_different_commits_is_refused() -> None:
    with pytest.raises(ValueError, match="differ in commit"):
        attack_parts.merged([part(), part(commit="def")])
