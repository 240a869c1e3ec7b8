"""Parts of a campaign: every case exactly once, and their figures added up."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any, Dict, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile import attack, attack_parts


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


def test_a_run_that_ends_early_has_written_the_cases_that_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "part.json"
    figures = attack.Figures(argparse.Namespace(output=output, commit="abc", seed=1))
    monkeypatch.setattr(attack, "WRITE_AFTER_S", -1.0)
    left = iter([None, "exit code 70"])

    def case(rng: random.Random) -> Optional[str]:
        return next(left)

    with pytest.raises(StopIteration):
        figures.repeat("processes_pyz", range(7, 12), "pyz", case)
    tally = json.loads(output.read_text(encoding="utf-8"))["processes_pyz"]
    assert tally == {"cases": 2, "wrong": 1, "first_wrong": [{"case": 8, "what": "exit code 70"}]}
