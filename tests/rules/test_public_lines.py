"""Lines of public logs and programs by family, each with its entry and where it was read: tests/data/log_lines/public.tsv."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from edgedla.rules.messages import explain_line

TABLE = Path(__file__).parents[1] / "data" / "log_lines" / "public.tsv"
ROWS = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]]


@pytest.mark.parametrize(("message", "line"), [(row[0], row[3]) for row in ROWS])
def test_a_public_line_has_its_entry(message: str, line: str) -> None:
    found = explain_line(line)
    assert found is not None
    assert found[0].id == message


def test_each_row_names_its_source_once() -> None:
    assert all(row[2] for row in ROWS)
    assert [line for line, times in Counter(row[3] for row in ROWS).items() if times > 1] == []


@pytest.mark.parametrize(
    "line",
    [
        "Conv_311",  # a single row of a profile
        "make || exit 1",  # bars in a shell
        "CV_BRIDGE 1/2",  # no rail
        "NVDLA0_FREQ 100%",  # a load, which tegrastats does not print
        "Operation duration: 812 us",
        "ls: cannot access '/dev/nvhost-gpu': No such file or directory",
    ],
)
def test_a_line_of_another_kind_is_not_taken_for_one(line: str) -> None:
    assert explain_line(line) is None
