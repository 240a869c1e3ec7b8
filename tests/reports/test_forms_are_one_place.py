"""A form of a report is one file and one row: forgetting one of them fails here, by name."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Mapping

import pytest

from edgedla.cli import place
from edgedla.cli.check import check
from edgedla.cli.output import FORMAT_OF_ENDING
from edgedla.reports import FORMS as CHECK_FORMS
from edgedla.reports.placement import FORMS as PLACEMENT_FORMS
from edgedla.reports.table import FORMS as TABLE_FORMS

REPORTS = Path(__file__).resolve().parents[2] / "edgedla" / "reports"
#: The command's own list stands beside its options: the command line imports no report.
ASKED = {"check": check.FORMATS, "table": check.FORMATS, "placement": place.FORMATS}
ROOMS = {"check": CHECK_FORMS, "table": TABLE_FORMS, "placement": PLACEMENT_FORMS}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_every_row_names_a_function_and_every_function_stands_in_a_row(room: str) -> None:
    forms: Mapping[str, str] = ROOMS[room]
    for form, where in forms.items():
        module, _, function = where.partition(":")
        assert callable(getattr(importlib.import_module(module), function)), form
    written = set()
    for path in (REPORTS / room).glob("*.py"):
        module = importlib.import_module(
            f"edgedla.reports.{room}.{path.stem}" if path.stem != "__init__" else f"edgedla.reports.{room}"
        )
        for name, value in vars(module).items():
            if name.startswith("to_") and inspect.isfunction(value) and value.__module__ == module.__name__:
                written.add(f"{module.__name__}:{name}")
    assert written == set(forms.values()), "FORMS of this room has a row for each function to_..."


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_every_form_can_be_asked_for_by_a_file_or_is_named_here(room: str) -> None:
    without_ending = {"trtexec"}
    unasked = set(ROOMS[room]) - set(FORMAT_OF_ENDING.values()) - without_ending
    assert unasked == set(), "FORMAT_OF_ENDING in edgedla/cli/output.py has an ending for each form"


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_the_command_takes_every_form(room: str) -> None:
    missing = [form for form in ROOMS[room] if form not in ASKED[room]]
    assert missing == [], "FORMATS of the command (cli/check/check.py, cli/place.py) names every form"
