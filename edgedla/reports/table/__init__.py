"""Models by platforms: the buyer's table, in every form."""

from __future__ import annotations

from typing import Mapping

from edgedla.reports.table.table import Cell, Table, table_of_reports
from edgedla.text.shown import in_form

#: Form -> the function that writes it: (table, terminal) -> text. To add a form: one file here and one row.
FORMS: Mapping[str, str] = {
    "text": "edgedla.reports.table.text:to_text",
    "json": "edgedla.reports.table.json:to_json",
    "markdown": "edgedla.reports.table.markdown:to_markdown",
    "csv": "edgedla.reports.table.csv:to_csv",
    "html": "edgedla.reports.table.html:to_html",
}
TABLE_FORMATS = tuple(FORMS)

__all__ = ["FORMS", "TABLE_FORMATS", "Cell", "Table", "render_table", "table_of_reports"]


def render_table(table: Table, output_format: str, terminal: bool = False) -> str:
    """The table in one of TABLE_FORMATS.

    Raises:
        UsageError: unknown form.
    """
    return in_form("a table", FORMS, output_format, table, terminal)
