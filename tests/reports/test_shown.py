"""Results in Python: one line, a page in a notebook, files by ending; every result that the package gives out has a row."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

import edgedla
from edgedla.reports.shown import KINDS
from edgedla.text.shown import Report, Shown

ROOT = Path(__file__).resolve().parents[2]
DETECTOR = str(ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx")
PLACE = {"target": "orin-nx-16gb"}


@pytest.fixture(scope="module")
def results() -> Dict[str, Any]:
    return {
        "CheckReport": edgedla.check(DETECTOR, **PLACE),
        "Placement": edgedla.place(DETECTOR, **PLACE),
        "Prediction": edgedla.predict(DETECTOR, devices="DLA0", **PLACE),
    }


def test_every_class_that_derives_from_shown_has_a_row_and_every_row_a_class() -> None:
    for name in KINDS:
        assert issubclass(getattr(edgedla, name), Shown), name
    assert {cls.__name__ for cls in (*Shown.__subclasses__(), *Report.__subclasses__())} - {"Report"} == set(KINDS)


@pytest.mark.parametrize("name", ["CheckReport", "Placement", "Prediction"])
def test_a_result_prints_one_line_and_is_shown_and_saved(name: str, results: Dict[str, Any], tmp_path: Path) -> None:
    result = results[name]
    line = repr(result)
    assert "\n" not in line
    assert 20 < len(line) < 300, line
    assert "Orin NX" in line or "orin-nx" in line
    assert result.text().count("\n") > 3
    assert json.loads(result.save(tmp_path / "r.json").read_text())["document"].startswith("edgedla.")
    assert result.save(str(tmp_path / "r.txt")).read_text() == result.text()
    with pytest.raises(edgedla.UsageError, match="no form has the ending"):
        result.save(tmp_path / "r.pdf")
    assert not (tmp_path / "r.pdf").exists()


def test_the_line_of_a_prediction_is_its_answer(results: Dict[str, Any]) -> None:
    assert re.search(r"predicted [0-9.]+ .s per frame, [0-9.]+ frames/s in a pipeline", repr(results["Prediction"]))


def test_a_page_stands_in_a_sandboxed_frame_with_its_text_escaped(results: Dict[str, Any]) -> None:
    shown = results["CheckReport"]._repr_html_()
    assert shown.startswith("<iframe sandbox=")
    assert "allow-same-origin" not in shown
    assert shown.count("<") == 2


def test_a_result_without_a_page_is_shown_as_text(results: Dict[str, Any]) -> None:
    assert results["Prediction"]._repr_html_().startswith("<pre>")
    with pytest.raises(edgedla.UsageError, match="has no form"):
        results["Prediction"].html()
    assert results["Prediction"]._repr_markdown_().startswith("```text\n")


@pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10")
def test_the_answer_of_fix_says_what_it_did() -> None:
    assert "nothing to rewrite" in repr(edgedla.fix(DETECTOR, **PLACE, prove=False))


@pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10")
def test_the_answer_of_fix_ends_with_its_gain_however_long_it_is(tmp_path: Path) -> None:
    street = tmp_path / "street.onnx"
    subprocess.run([sys.executable, str(ROOT / "examples/01_check_a_model/make_model.py"), str(street)], check=True)
    line = repr(edgedla.fix(street, **PLACE, prove=False))
    assert "\n" not in line
    assert re.search(r"latency per frame [0-9.]+ times better \(predicted\); now .* on the GPU alone \([0-9.]+ ms\)$", line)
