"""`edgedla check --compare`: every model on every platform, as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

import click

from edgedla.cli.arguments.check_request import CheckRequest
from edgedla.cli.arguments.gate import DECIDING, NEEDS
from edgedla.cli.arguments.models import ModelSource
from edgedla.cli.arguments.option import given_options
from edgedla.cli.arguments.this_board import own_platform
from edgedla.cli.output import deliver, destinations, echo, say_where
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import ModelError, UsageError

if TYPE_CHECKING:
    from edgedla.reports.table import Table

TABLE_FORMATS = ("text", "json", "markdown", "csv", "html")


def compare(sources: Sequence[ModelSource], given: Dict[str, Any], request: CheckRequest) -> int:
    """Writes the table of every model on every platform and returns the exit code.

    Raises:
        UsageError: an output form without tables, or an unknown platform.
    """
    output_format = given["output_format"]
    if output_format and output_format not in TABLE_FORMATS:
        raise UsageError(
            f"a table of models and platforms has no form {output_format}", where="--format", allowed=", ".join(TABLE_FORMATS)
        )
    for name in DECIDING:
        if given[name] not in (None, False):
            raise UsageError(
                "it holds for checks of one platform", where=f"--{name.replace('_', '-')}", allowed="without --compare"
            )
    targets = destinations(output_format, given["output"], TABLE_FORMATS)
    from edgedla.cli.arguments.platforms import parse_platforms
    from edgedla.reports import gate
    from edgedla.reports.table import render_table
    from edgedla.reports.table.needs import Needs
    from edgedla.reports.table.text import one_line_each

    places = parse_platforms(given["compare"], given["target"], given["jetpack"], given["trt"])
    _require_meaning(click.get_current_context(), given, places)
    needs = Needs(**{field: given[name] for name, field in NEEDS.items()})
    if needs.text and request.cost is False:
        raise UsageError("whether a board meets them is a matter of its cost", where="--no-cost", allowed="without needs")
    most = request.costed_layers([form for form, _ in targets], bool(needs.text))
    table = replace(_table(sources, places, request, most), needs=needs)

    def render(form: str, terminal: bool) -> str:
        return one_line_each(table) if given["quiet"] and form == "text" else render_table(table, form, terminal)

    deliver(targets, render)
    rows, columns = len(table.rows), len(table.columns)
    models, platforms = "model" if rows == 1 else "models", "platform" if columns == 1 else "platforms"
    met = f", {sum(len(table.met(row)) for row in table.rows)} of {rows * columns} meet the needs" if needs.text else ""
    say_where(targets, lambda: f"{rows} {models} on {columns} {platforms}{met}\n")
    nowhere = [row for row in table.rows if all(cell.report is None for cell in row.cells)]
    for row in nowhere:
        echo(f"edgedla: error: {row.cells[0].error}", err=True)
    if nowhere:
        return ModelError.exit_code
    reports = [cell.report for _, _, cell in table.cells()]
    passed = all(report is not None and gate.passes(report, given["fail_on"]) for report in reports)
    if not all(table.met(row) for row in table.rows) and needs.text:
        return 1
    return 0 if passed or given["fail_on"] == "never" else 1


def _require_meaning(context: click.Context, given: Mapping[str, Any], places: Mapping[str, Mapping[str, str]]) -> None:
    """Refuses options that change no cell of the table.

    Raises:
        UsageError: a module, release or precision that no platform takes over; --all.
    """
    from edgedla.cli.arguments.platforms import parse_platform

    own = {label: parse_platform(label, "") for label in places}
    meant = {
        "target": any(parts["target"] in ("", given["target"]) for parts in own.values()),
        **{name: any(name in places[label] and name not in own[label] for label in own) for name in ("jetpack", "trt")},
        "precision": any("precision" not in parts for parts in own.values()),
        "everything": False,
    }
    for name, option in given_options(context).items():
        if meant.get(name, True):
            continue
        if name == "everything":
            raise UsageError("a table of platforms lists no findings", where=option, allowed="without --compare")
        raise UsageError(
            f"no platform of --compare takes it over: {', '.join(places)}",
            where=option,
            hint="Leave it out, or name it in --compare: MODULE, RELEASE, PRECISION, or several joined by @.",
        )


def _table(
    sources: Sequence[ModelSource], places: Dict[str, Dict[str, Any]], request: CheckRequest, most: Optional[int]
) -> Table:
    """Checks every model on every platform. Where a platform's parser refuses a model, its cell holds the error."""
    from edgedla.reports.table.table import Cell, Row, Table, column_at, distinct
    from edgedla.reports.unchecked import shown_file, without_passwords
    from edgedla.targets import platform_for

    columns = []
    places = {
        # A column that names this board's module alone is this board.
        label: {**place, **own_platform(place["target"], place.get("jetpack"), place.get("trt"))}
        for label, place in places.items()
    }
    for label, place in places.items():
        where = {key: value for key, value in place.items() if key != "precision"}
        platform = platform_for(**where)
        columns.append(column_at(platform, place.get("precision") or request.precision_on(platform), label))
    rows, names = [], []
    with waiting("checking", len(sources) * len(places)) as work:
        for source in sources:
            cells: List[Cell] = []
            name = file = shown_file(source.file)
            for place in places.values():
                try:
                    report = request.report(source, dict(place), most)
                    cells.append(Cell(report))
                    name = report.model
                except ModelError as e:
                    cells.append(Cell(None, without_passwords(e)))
                work.done += 1
            rows.append((file, tuple(cells)))
            names.append(name)
    files = [file for file, _ in rows]
    unique = distinct(names, files)
    return Table(tuple(columns), tuple(Row(name, file, cells) for name, (file, cells) in zip(unique, rows)))
