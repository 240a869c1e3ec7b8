"""A form of a report is one file and one row: a missing one is named here."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Mapping

import pytest

from edgedla.cli import place
from edgedla.cli.arguments.check_request import COSTED_FORMS
from edgedla.cli.check import check
from edgedla.cli.output import FORMAT_OF_ENDING
from edgedla.costs.networks import network
from edgedla.placement.check_cost import with_cost
from edgedla.regions import check_graph
from edgedla.regions.values import GivenCosts
from edgedla.reports import FORMS as CHECK_FORMS
from edgedla.reports import render_check
from edgedla.reports.placement import FORMS as PLACEMENT_FORMS
from edgedla.reports.table import FORMS as TABLE_FORMS
from edgedla.reports.table import render_table
from edgedla.reports.table.table import Cell, Row, Table, column_at
from edgedla.targets import platform_for

REPORTS = Path(__file__).resolve().parents[2] / "edgedla" / "reports"
#: The command's own list stands beside its options: the command line imports no report.
ASKED = {"check": check.FORMATS, "table": check.FORMATS, "placement": place.FORMATS}
ROOMS = {"check": CHECK_FORMS, "table": TABLE_FORMS, "placement": PLACEMENT_FORMS}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_every_render_function_is_in_the_table_of_formats(room: str) -> None:
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
def test_every_report_format_has_a_file_ending(room: str) -> None:
    without_ending = {"trtexec"}
    unasked = set(ROOMS[room]) - set(FORMAT_OF_ENDING.values()) - without_ending
    assert unasked == set(), "FORMAT_OF_ENDING in edgedla/cli/output.py has an ending for each form"


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_every_report_format_is_accepted_by_its_command(room: str) -> None:
    missing = [form for form in ROOMS[room] if form not in ASKED[room]]
    assert missing == [], "FORMATS of the command (cli/check/check.py, cli/place.py) names every form"


def test_formats_that_show_costs_to_people_are_costed_by_default() -> None:
    """COSTED_FORMS, from what the forms show of a report with a cost and of the same one without."""
    graph, platform = network("resnet18"), platform_for("orin-nx-16gb")
    plain = check_graph(graph, platform, "int8")
    costed = with_cost(plain, graph, GivenCosts())
    showing = {form for form in CHECK_FORMS if render_check([plain], form) != render_check([costed], form)}
    column = column_at(platform, "int8", "orin-nx-16gb")
    tables = [Table((column,), (Row("resnet18", "a.onnx", (Cell(report),)),)) for report in (plain, costed)]
    showing |= {form for form in TABLE_FORMS if render_table(tables[0], form) != render_table(tables[1], form)}
    # JSON is for programs, which ask with --cost; beside JUnit's file stands the line that people read.
    assert (showing | {"junit"}) - {"json"} == set(COSTED_FORMS), "COSTED_FORMS in edgedla/cli/arguments/check_request.py"


def test_a_form_that_the_table_writes_for_a_single_check_is_no_form_of_the_check_too() -> None:
    """`check --format csv` of one model is a table of one row: a function of the same name in the check's room would never be called."""
    of_the_table = set(check.FORMATS) - set(CHECK_FORMS)
    assert of_the_table == {"csv"}, "`_show` of edgedla/cli/check/check.py hands these forms to the table's room"
    assert of_the_table <= set(TABLE_FORMS)
