"""The README of the solvers names every room, and no file that is not there."""

from __future__ import annotations

import re
from pathlib import Path

SOLVERS = Path(__file__).resolve().parents[2] / "edgedla" / "placement" / "solvers"
TEXT = (SOLVERS / "README.md").read_text(encoding="utf-8")


def test_every_room_and_loose_file_is_named() -> None:
    rooms = {f"{p.parent.name}/" for p in SOLVERS.glob("*/__init__.py")}
    loose = {p.name for p in SOLVERS.glob("*.py")} - {"__init__.py"}
    assert not {name for name in rooms | loose if name not in TEXT}


def test_no_file_is_named_that_is_not_there() -> None:
    files = {p.name for p in SOLVERS.rglob("*.py")}
    benchmarks = {p.name for p in (SOLVERS.parents[2] / "benchmarks").glob("*.py")}
    assert not {Path(name).name for name in re.findall(r"[\w/]+\.py\b", TEXT)} - files - benchmarks
