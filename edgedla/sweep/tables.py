"""A sweep's rows as JSON lines, CSV and Parquet: equal rows give identical bytes."""

from __future__ import annotations

import csv
import importlib
import io
import json
from pathlib import Path
from typing import Any, Sequence, Tuple

from edgedla.errors import EnvironmentMissing
from edgedla.io.files import write_atomic
from edgedla.sweep.row import COLUMNS, Row
from edgedla.text.printable import cell, json_escaped

_WHOLE = ("layers", "layers_dla", "layers_gpu", "layers_unknown", "macs", "regions", "regions_dropped", "transitions")
_REAL = (
    "share_layers_dla",
    "share_macs_dla",
    "latency_us",
    "period_us",
    "energy_mj",
    "gpu_latency_us",
    "fixed_share_macs_dla",
    "fixed_latency_us",
    "fps",
    "gpu_fps",
)


def to_jsonl(rows: Sequence[Row]) -> str:
    return json_escaped("".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows))


def to_csv(rows: Sequence[Row]) -> str:
    """CSV with a header; each cell as `printable.cell` writes it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([cell(row[name]) for name in COLUMNS])
    return out.getvalue()


def import_arrow(path: Path) -> Tuple[Any, Any]:
    """(pyarrow, pyarrow.parquet) for writing this file. Raises EnvironmentMissing without them."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as e:
        raise EnvironmentMissing(f"Parquet needs pyarrow: {e}", where=str(path), hint="pip install pyarrow") from e


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    """Raises EnvironmentMissing without pyarrow."""
    arrow, parquet = import_arrow(path)
    kinds = {name: arrow.int64() for name in _WHOLE}
    kinds.update((name, arrow.float64()) for name in _REAL)
    # Column types do not depend on the rows, so that files of several sweeps can be read as one table.
    schema = arrow.schema([(name, kinds.get(name, arrow.string())) for name in COLUMNS])
    out = io.BytesIO()
    encodable = [{name: for_arrow(value) for name, value in row.items()} for row in rows]
    parquet.write_table(arrow.Table.from_pylist(encodable, schema=schema), out)
    write_atomic(path, out.getvalue())


def for_arrow(value: Any) -> Any:
    """A cell that Arrow can hold: bytes of no UTF-8 in a file's name as \\udcXX; None for a count beyond 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return None if isinstance(value, int) and value >= 1 << 63 else value
