"""The buyer's table for a spreadsheet: one line per cell, times in ms, energies in mJ."""

from __future__ import annotations

import csv
import io

from edgedla.reports.table.json import cell_values
from edgedla.reports.table.table import Table
from edgedla.reports.text import clean


def to_csv(table: Table, terminal: bool) -> str:
    out = io.StringIO()
    lines = []
    for row, column, cell in table.cells():
        place = {
            "model": row.name,
            "file": row.file,
            "target": column.module,
            "jetpack": column.jetpack,
            "trt": column.trt,
            "precision": column.precision,
        }
        lines.append({k: _safe(v) for k, v in {**place, **cell_values(cell)}.items()})
    if lines:
        writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return out.getvalue()


def _safe(value: object) -> object:
    """Text that a spreadsheet does not evaluate: a model's name may look like a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = clean(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
