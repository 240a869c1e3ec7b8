"""The buyer's table for a spreadsheet: one line per cell, times in ms, energies in mJ."""

from __future__ import annotations

import csv
import io

from edgedla.reports.table.json import cell_values
from edgedla.reports.table.table import Table
from edgedla.text.printable import cell as printed


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
        lines.append({k: printed(v) for k, v in {**place, **cell_values(cell, table.needs)}.items()})
    if lines:
        writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return out.getvalue()
