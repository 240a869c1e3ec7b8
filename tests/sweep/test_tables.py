"""No name of a model or file ends a sweep's tables, or reaches a terminal or spreadsheet as an order."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.reports.sweeps.page import sweep_page
from edgedla.sweep.row import COLUMNS, TEXTS, is_row
from edgedla.sweep.tables import for_arrow, to_csv, to_jsonl, write_parquet
from tests.hostile.orders import ORDERS

NASTY = ("a\0b", "a\x1b[2Jb", "a\x9bb", "a\u2028b", "a\u202eb", "\udcff.onnx", "\ud800", "a\nb\rc\td", '"', "é😀")
FORMULAS = ("=1+1", "+1", "-1", "@x", "\t=1", "\r=1")


def row(text):
    found = {
        **dict.fromkeys(COLUMNS),
        "key": "k",
        "model": text,
        "status": "ok",
        "reason": text,
        "platform": text,
        "precision": "fp16",
    }
    assert is_row(found)
    return found


@pytest.mark.parametrize("text", [*NASTY, *FORMULAS])
def test_csv_shows_each_name_in_one_line_that_is_no_formula(text):
    written = to_csv([row(text), row("next")])
    written.encode("utf-8")
    assert ORDERS.findall(written) == []
    first, second = csv.DictReader(io.StringIO(written))
    assert second["model"] == "next"
    assert first["model"] == first["reason"]
    assert first["model"][:1] not in ("=", "+", "-", "@")
    assert len(written.splitlines()) == 3


@given(st.text(st.characters(), max_size=20))
def test_every_table_takes_every_text(text):
    rows = [row(text), row("next")]
    for written in (to_csv(rows), to_jsonl(rows)):
        written.encode("utf-8")
        assert ORDERS.findall(written) == []
    assert [json.loads(line) for line in to_jsonl(rows).splitlines()] == rows
    assert len(list(csv.reader(io.StringIO(to_csv(rows))))) == 3


@pytest.mark.parametrize("text", NASTY)
def test_the_page_takes_every_text(text):
    page = sweep_page([row(text)], COLUMNS, {})
    page.encode("utf-8")
    assert ORDERS.findall(page) == []


@pytest.mark.parametrize("text", NASTY)
def test_a_cell_for_parquet_is_text_that_utf_8_can_say(text):
    found = for_arrow(text)
    found.encode("utf-8")
    assert found == text or "\\ud" in found


@pytest.mark.parametrize(
    ("value", "kept"),
    [(2**63 - 1, 2**63 - 1), (2**63, None), (10**300, None), (0, 0), (1.5e300, 1.5e300), (None, None), (True, True)],
)
def test_a_count_beyond_64_bits_is_unknown_in_parquet(value, kept):
    """Huge dims of one model ended the whole sweep: Arrow's counts have 64 bits."""
    assert for_arrow(value) == kept


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed here")
def test_parquet_keeps_names_and_escapes_what_is_no_text(tmp_path: Path):
    from pyarrow import parquet

    write_parquet([*({**row(text), "macs": 2**63} for text in NASTY)], tmp_path / "r.parquet")
    found = parquet.read_table(tmp_path / "r.parquet").to_pylist()
    assert [r["model"] for r in found] == [t.encode("utf-8", "backslashreplace").decode() for t in NASTY]


def test_texts_name_columns():
    assert set(COLUMNS) >= TEXTS
