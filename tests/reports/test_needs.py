"""What a buyer needs of a board: which way meets it, how surely, and the same answer in every form of the table."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import jsonschema
import pytest

from edgedla.cli.main import exit_code_of
from edgedla.costs.cost import Cost
from edgedla.io.documents import schema
from edgedla.reports.table.needs import ANSWERS, Needs
from tests.models import node, onnx_model, save


def worth(*ways: Any, budget_w: Optional[float] = None) -> Any:
    return SimpleNamespace(ways=ways, idle_w=5.0, budget_w=budget_w, power_mode="15W", energy_known=True)


def way(name: str, fps: float, ms: float, mj: float, spread: float = 0.25, basis: str = "fitted") -> Any:
    cost = Cost(ms * 1e3, mj, basis, spread, spread)
    period = Cost(1e6 / fps, mj, basis, spread, spread)
    return SimpleNamespace(name=name, precision="int8", cost=cost, period=period, fps=fps, memory_bytes=2_000_000)


@pytest.mark.parametrize(
    ("needs", "answer"),
    [
        (Needs(), ""),
        (Needs(fps=80), "yes"),
        (Needs(fps=80.1), "probably"),
        (Needs(fps=100), "probably"),
        (Needs(fps=100.1), "unlikely"),
        (Needs(fps=125), "unlikely"),
        (Needs(fps=125.1), "no"),
        (Needs(ms=12.5), "yes"),
        (Needs(ms=12.4), "probably"),
        (Needs(ms=9.9), "unlikely"),
        (Needs(ms=7.9), "no"),
        # 5 W idle and 100 frames/s of 10 mJ.
        (Needs(watts=7.5), "yes"),
        (Needs(watts=6), "probably"),
        (Needs(watts=5.9), "unlikely"),
        (Needs(watts=4.7), "no"),
        # At 50 frames/s 5.5 W.
        (Needs(fps=50, watts=5.5), "probably"),
        (Needs(fps=80, ms=12.5), "yes"),
        (Needs(fps=80, ms=7.9), "no"),
    ],
)
def test_needs_are_met_as_surely_as_the_spread_allows(needs: Needs, answer: str) -> None:
    offer = needs.nearest(worth(way("gpu", 100, 10, 10)), "int8")
    assert offer is not None
    assert offer.answer == answer


@pytest.mark.parametrize(
    ("needs", "name"),
    [
        (Needs(), "throughput"),
        (Needs(fps=150), "throughput"),
        (Needs(ms=15), "gpu"),
        (Needs(watts=5.5), "energy"),
        # Each meets one of both; the one that misses less is shown.
        (Needs(fps=150, ms=15), "gpu"),
    ],
)
def test_one_way_has_to_meet_all_needs(needs: Needs, name: str) -> None:
    ways = way("gpu", 100, 10, 10), way("throughput", 200, 30, 10), way("energy", 20, 20, 5)
    offer = needs.nearest(worth(*ways), "int8")
    assert offer is not None
    assert offer.way.name == name
    assert needs.nearest(worth(*ways), "fp16") is None


@pytest.mark.parametrize(
    ("needs", "missed"),
    [
        (Needs(fps=1000), ""),
        (Needs(ms=10, watts=6), ""),
        (Needs(ms=9, watts=5.5), "10.0 ms, 6.00 W"),
        (Needs(fps=50, watts=5.6), ""),
    ],
)
def test_time_and_power_above_the_limits_are_told(needs: Needs, missed: str) -> None:
    offer = needs.nearest(worth(way("gpu", 100, 10, 10)), "int8")
    assert offer is not None
    assert needs.missed(offer) == missed


def test_a_guess_says_so_with_its_spread() -> None:
    told = [Needs().nearest(worth(way("gpu", 100, 10, 10, basis=basis)), "int8") for basis in ("fitted", "guessed")]
    assert [offer and offer.guess for offer in told] == ["", "a guess, ± 25 %"]


@pytest.mark.parametrize(
    ("needs", "budget_w", "watts", "answer"),
    [
        # 100 frames/s of 10 mJ are 1 W above 5 W idle.
        (Needs(), 6.1, 6.0, ""),
        (Needs(), 5.8, 5.8, ""),
        (Needs(watts=5.8), 5.8, 5.8, "probably"),
        (Needs(fps=75), 5.8, 5.75, "yes"),
        (Needs(fps=90), 5.8, 5.8, "unlikely"),
        (Needs(fps=90), None, 5.9, "probably"),
    ],
)
def test_a_board_takes_no_more_than_its_power_mode_allows(
    needs: Needs, budget_w: Optional[float], watts: float, answer: str
) -> None:
    offer = needs.nearest(worth(way("gpu", 100, 10, 10), budget_w=budget_w), "int8")
    assert offer is not None
    assert (offer.watts, offer.answer) == (pytest.approx(watts), answer)
    assert offer.guess == ("slowed by the 5.8 W of the mode" if offer.capped else "")
    assert offer.capped == (watts == budget_w)


BOARDS = "orin-nx-16gb,agx-thor,orin-nano"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(onnx_model([node("Relu", "x", "y")]), tmp_path_factory.mktemp("needs") / "relu.onnx")


def test_every_form_names_the_boards_that_meet_the_needs(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {form: tmp_path / f"t.{form}" for form in ("txt", "json", "md", "csv", "html")}
    outputs = [part for file in files.values() for part in ("-o", str(file))]
    words = ["check", str(model), "--compare", BOARDS, "--need-ms", "1000", "--max-w", "6"]
    assert exit_code_of([*words, *outputs]) == 1
    assert "meet the needs" in capsys.readouterr().out
    rows = list(csv.DictReader(files["csv"].read_text(encoding="utf-8").splitlines()))
    answers = [row["meets"] for row in rows]
    assert set(answers) <= {"unlikely", "no"}
    assert ["guess" in row["guess"] for row in rows] == [False, True, False]
    document = json.loads(files["json"].read_text(encoding="utf-8"))
    jsonschema.validate(document, schema("edgedla.compare"))
    assert document["needs"] == {"fps": None, "ms": 1000.0, "watts": 6.0}
    figures = [column["figures"] for column in document["columns"]]
    assert [f["meets"] for f in figures] == answers
    assert [f["run_w"] for f in figures] == [float(row["run_w"]) for row in rows]
    text = files["txt"].read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 80
    page = files["html"].read_text(encoding="utf-8")
    assert [page.count(f">{words}<") for _, words in ANSWERS.values()] == [answers.count(answer) for answer in ANSWERS]
    for form in ("txt", "md", "html"):
        shown = files[form].read_text(encoding="utf-8")
        assert "at most 1000 ms, at most 6 W" in shown
        assert shown.count("a guess, ±") == 1, form


def test_quiet_gives_one_line_per_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", str(model), "--compare", BOARDS, "--need-ms", "1000", "-q"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("relu: yes: orin-nx-16gb ")
    assert line.count("\n") == 1
    assert exit_code_of(["check", str(model), "--compare", BOARDS, "-q", "--fail-on", "never"]) == 0
    assert capsys.readouterr().out.startswith("relu: Not worth it: orin-nx-16gb ")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--need-fps", "1"], 2),
        (["--need-fps", "0", "--compare", BOARDS], 2),
        (["--need-ms", "nan", "--compare", BOARDS], 2),
        (["--max-w", "-1", "--compare", BOARDS], 2),
        (["--max-w", "100", "--compare", BOARDS, "--no-cost"], 2),
        (["--max-w", "1000", "--compare", BOARDS], 0),
        (["--max-w", "1", "--compare", BOARDS], 1),
    ],
)
def test_needs_decide_the_exit_code_of_a_table(options: List[str], code: int, model: Path) -> None:
    assert exit_code_of(["check", str(model), *options]) == code


def test_a_model_that_does_not_build_meets_nothing_and_one_that_is_not_costed_is_unknown(model: Path) -> None:
    import edgedla
    from edgedla.errors import ModelError, ModelRefused
    from edgedla.reports.table import Cell

    report = edgedla.check(model, target="orin-nx-16gb")
    cells: Dict[str, Optional[Cell]] = {"unknown": Cell(report), "no": Cell(None, ModelRefused("an operator"))}
    for answer, cell in cells.items():
        assert cell is not None
        assert cell.meets(Needs(fps=1)) == answer
        assert cell.meets(Needs()) == ""
    assert Cell(None, ModelError("cut off")).meets(Needs(fps=1)) == "unknown"
    assert Cell(replace(report, worth=None)).offer(Needs(fps=1)) is None
