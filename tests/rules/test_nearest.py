"""Fragments of log lines and misspelt ids find the nearest entry of the catalogue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import List

import jsonschema
import pytest

from edgedla.cli.main import exit_code_of
from edgedla.rules.messages import messages
from edgedla.rules.nearest import holding, nearest_ids, nearest_messages

SCHEMAS = Path(__file__).resolve().parents[2] / "edgedla/schemas"


@pytest.mark.parametrize(
    ("fragment", "expected"),
    [
        ("CUDLA ERR: 7", ["MSG504"]),
        ("cudla err:  7", ["MSG504"]),
        ("Failure to submit program", ["MSG503"]),
        # Too short to say anything.
        ("DLA", []),
        ("CUDLA ERR: 12", []),
    ],
)
def test_a_fragment_of_a_recorded_line_finds_its_message(fragment: str, expected: List[str]) -> None:
    assert [m.id for m in holding(fragment)] == expected


def test_every_message_is_among_the_nearest_of_its_examples() -> None:
    for message in messages():
        for line in message.examples:
            near = nearest_messages(line, most=5)
            assert message.id in [m.id for m, _ in near], line


def test_a_fragment_with_another_number_finds_the_nearest_message() -> None:
    message, line = nearest_messages("CUDLA ERR: 99")[0]
    assert message.id == "MSG504"
    assert "CUDLA ERR: 7" in line
    assert nearest_messages("the cat sat on the mat") == ()
    assert nearest_messages("") == ()


def test_misspelt_ids_find_the_nearest_id() -> None:
    assert nearest_ids("average-pol", ("average-pool", "relu")) == ("average-pool",)
    assert nearest_ids("banana", ("average-pool", "relu")) == ()


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("CUDLA ERR: 7", 0, "MSG519 cudla-driver-fails"),
        ("CUDLA ERR: 99", 1, "MSG504: load cuDLA module from memory FAILED"),
        ("average-pol", 1, "average-pool: "),
        ("subgraph-limit", 0, "MSG201"),
        ("conv009", 0, "CONV009"),
        ("the cat sat on the mat", 1, "Not in the catalogue"),
    ],
)
def test_explain_of_an_unknown_text_suggests_the_nearest(
    text: str, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(["explain", text]) == code
    assert says in " ".join(capsys.readouterr().out.split())


def test_the_explain_document_names_the_nearest_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["explain", "CUDLA ERR: 99", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads((SCHEMAS / "explain.schema.json").read_text()))
    assert document["nearest"][0] == "MSG504"
