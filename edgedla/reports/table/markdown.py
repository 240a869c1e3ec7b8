"""The buyer's table as Markdown: one table per platform."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from edgedla.reports.markdown import code, escape
from edgedla.reports.page.numbers import significant
from edgedla.reports.table import needs
from edgedla.reports.table.differences import ends, of_one_model
from edgedla.reports.table.table import Cell, Table

HEAD = ("Model", "Verdict", "DLA ms", "GPU ms", "×", "Loadables", "Worst cause", *needs.HEAD, "Way")


def to_markdown(table: Table, terminal: bool) -> str:
    return "\n".join(_lines(table)) + "\n"


def _lines(table: Table) -> Iterator[str]:
    head = [*HEAD, *(("Meets",) if table.needs.text else ())]
    if table.needs.text:
        yield f"Needed: {table.needs.text}.\n"
    for i, column in enumerate(table.columns):
        yield f"## {escape(column.title)} ({escape(column.module)}), {escape(column.release)}\n"
        yield row(head)
        yield row(["---"] * len(head))
        for model in table.rows:
            cell = model.cells[i]
            meets = [cell.meets(table.needs)] if table.needs.text else []
            yield row([code(model.name), *_cells(cell), *_figures(cell, table.needs), *meets])
        yield ""
    yield f"{table.needs.legend}.\n"
    if table.frames():
        yield f"{escape(table.frames())}\n"
    every = of_one_model(table)
    if every:
        yield "### Nodes that differ\n"
        yield row(["node", "op", *every[0].labels])
        yield row(["---"] * (2 + len(every[0].labels)))
        for d in every:
            yield row([code(d.name), escape(d.op), *(escape(ends(n)) for n in d.nodes)])


def _cells(cell: Cell) -> Sequence[str]:
    report, ratio = cell.report, cell.ratio()
    if report is None:
        return [cell.verdict[1], "", "", "", "", escape(cell.reason)]
    cause, layers = cell.worst
    dropped = f" (+{report.totals.regions_dropped} dropped)" if report.totals.regions_dropped else ""
    return [
        cell.verdict[1],
        _ms(cell.time_us("tensorrt")),
        _ms(cell.time_us("gpu")),
        "" if ratio is None else significant(ratio),
        f"{report.totals.regions}{dropped}" if report.platform.has_dla else "",
        f"{escape(cause)} ({layers})" if cause else "",
    ]


def _figures(cell: Cell, needed: needs.Needs) -> Sequence[str]:
    offer = cell.offer(needed)
    if offer is None:
        return [""] * (len(needs.HEAD) + 1)
    return [*offer.figures, f"{offer.way.title}{f'; {offer.guess}' if offer.guess else ''}"]


def _ms(time_us: Optional[float]) -> str:
    return "" if time_us is None else significant(time_us / 1e3)


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
