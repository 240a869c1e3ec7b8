"""What a terminal of 80 columns shows: columns stay columns, nothing is lost, and a wide or no terminal keeps whole rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.accuracy.evaluate import Evaluation, Score
from edgedla.importers import load_onnx
from edgedla.inspection.inspect_file import inspect
from edgedla.reports.inspect import render_inspection
from edgedla.reports.layers import render_layers
from edgedla.reports.quantization import render_evaluation
from edgedla.reports.rules import render_rewrites, render_rules
from edgedla.reports.targets import render_modules
from edgedla.reports.text import folded, labelled, table_lines, wrapped
from edgedla.rules.docs import all_rules
from tests.models import node, onnx_model, save

NARROW = 80


@pytest.fixture(autouse=True)
def _no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")


def words(text: str) -> List[str]:
    return sorted(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


def layers_of(folder: Path) -> Callable[[bool], str]:
    names = [f"/backbone/stage{i}/block/activation" for i in range(4)]
    pairs = zip(["x", *names], [*names, "y"])
    file = save(onnx_model([node("Relu", a, b, name=f"{b}/Relu_{len(b)}") for a, b in pairs]), folder / "m.onnx")
    graph = load_onnx(file)
    return lambda terminal: render_layers(graph, "text", terminal)


@pytest.mark.parametrize("what", ["rules", "rewrites", "layers", "targets", "inspect"])
def test_texts_fit_a_narrow_terminal_without_losing_words(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = {
        "rules": lambda terminal: render_rules(all_rules(), "text", terminal),
        "rewrites": lambda terminal: render_rewrites("text", terminal),
        "layers": layers_of(tmp_path),
        "targets": lambda terminal: render_modules("text", terminal),
        "inspect": lambda terminal: render_inspection(inspect("m.onnx"), "text", terminal),
    }[what]
    piped = shown(False)
    monkeypatch.setenv("COLUMNS", str(NARROW))
    narrow = shown(True)
    assert max(map(len, narrow.splitlines())) <= NARROW
    assert words(narrow) == words(piped)
    monkeypatch.setenv("COLUMNS", "400")
    wide = shown(True)
    assert [line.rstrip() for line in wide.splitlines()] == [line.rstrip() for line in piped.splitlines()]


def test_an_evaluation_wraps_below_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    score = Score("a_network_with_a_name", "simulated", "l2", 0.99, 0.98, 1.0, 4)
    shown = render_evaluation(Evaluation(score, detail="4 samples of s.npz"), "text", True)
    assert [line.rstrip() for line in shown.splitlines()][1:] == [
        "l2        0.9900  (95 %: 0.9800 to 1.0000, 4 samples)",
        "          a_network_with_a_name, SIMULATED",
    ]


def test_the_last_column_of_a_table_wraps_or_moves_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = [["A", "TEXT"], ["one", "words that go on and on beyond the end"]]
    assert table_lines(table, True) == [
        ("title", 0, "A    TEXT"),
        ("", 0, "one  words that go on and on beyond the"),
        ("", 5, "end"),
    ]
    wide = [["A", "B", "C"], ["a" * 20, "b" * 12, "c" * 12]]
    assert table_lines(wide, True) == [
        ("title", 0, "A                     B"),
        ("title", 2, "C"),
        ("", 0, f"{'a' * 20}  {'b' * 12}"),
        ("", 2, "c" * 12),
    ]
    assert [text for _, _, text in table_lines(wide, False)][1] == f"{'a' * 20}  {'b' * 12}  {'c' * 12}"


def test_a_word_wider_than_its_column_moves_below_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    digest = "d" * 34
    assert labelled([f"sha256    {digest}", "note      " + "word " * 8], 10, True) == [
        ("", 0, "sha256"),
        ("", 4, digest),
        ("", 0, "note      word word word word word word"),
        ("", 10, "word word"),
    ]
    assert labelled([f"sha256    {digest}"], 10, False) == [("", 0, f"sha256    {digest}")]


@given(st.lists(st.text("ab `/.", min_size=1, max_size=200), max_size=4), st.integers(30, 90), st.sampled_from(["", "note  "]))
def test_prose_fits_and_loses_no_word(lines: List[str], width: int, label: str) -> None:
    text = "\n".join(label + line for line in lines)
    shown = wrapped(text, width)
    assert shown.split() == text.split()
    for line in shown.splitlines():
        one = re.sub(r"`[^`]*`", lambda m: m[0].replace(" ", "_"), line).split()
        assert len(line) <= width or len(one) == 1 or "`" in text


def test_commands_spans_of_code_and_columns_stay_whole() -> None:
    command = f"  edgedla place {'m' * 40}.onnx --target orin"
    assert wrapped(command, 40) == command
    assert wrapped(f"run       python3 {'o' * 40} --source a", 40) == f"run       python3 {'o' * 40} --source a"
    assert wrapped("a model of fixed sizes: `edgedla fix MODEL --batch 1` does it", 40) == (
        "a model of fixed sizes:\n  `edgedla fix MODEL --batch 1` does it"
    )
    assert wrapped("  mean 1.25 ms  min 1.00 ms  p50 1.20 ms  max 2.25 ms", 40) == (
        "  mean 1.25 ms  min 1.00 ms  p50 1.20 ms\n    max 2.25 ms"
    )


def test_a_number_is_not_parted_from_its_unit() -> None:
    text = "the frame takes 8.44 ms of 100 % and 19.7 G MACs, 5 layers "
    for width in range(24, 80):
        lines = [part for _, _, part in folded(("", 0, text * 3), width)]
        assert " ".join(lines) == (text * 3).strip()
        assert not [line for line in lines if re.match(r"(ms|%|G) ", line)]
