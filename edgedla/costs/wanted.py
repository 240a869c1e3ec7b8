"""Measurements on a board that would narrow the cost model's spreads most, and the script that takes them: rules/costs/wanted.yaml."""

from __future__ import annotations

from typing import Any, NamedTuple, Tuple

from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.targets.platform import Platform


class Wanted(NamedTuple):
    """One measurement that no published figure replaces.

    Attributes:
        what: what is run, in one line.
        settles: what it tells, and the spread that it would take away.
        lines: of the script, in bash.
    """

    name: str
    what: str
    settles: str
    lines: str


def wanted(platform: Platform) -> Tuple[Wanted, ...]:
    """The measurements for a module, the one that settles most first."""
    version = platform.module.dla_version if platform.has_dla else 0
    needs = {"", *(("dla", f"dla{version}") if version else ())}
    rows = (row.only(("name", "needs", "what", "settles", "lines")) for row in _table().tables("runs"))
    return tuple(
        Wanted(*(row.text(key) for key in ("name", "what", "settles", "lines"))) for row in rows if row["needs"] in needs
    )


def script(platform: Platform) -> str:
    """A bash script for the board that takes every measurement in about ten minutes; the same bytes for the same platform."""
    table = _table()
    title = (
        f"#!/bin/bash\n# What edgedla's cost model wants to know of a {platform.module.title}: about ten minutes, as root.\n"
        "# sudo ./wanted.sh MODEL.onnx [CALIBRATION.cache]; results in ./wanted. Written by `edgedla costs wanted -o wanted.sh`.\n"
    )
    runs = (f"\n# {run.name}: {run.what}\n# settles: {run.settles}\n{run.lines}" for run in wanted(platform))
    return f"{title}{table.text('head')}{''.join(runs)}\n{table.text('tail')}"


def _table() -> Any:
    return strict_yaml.load(rules_dir() / "costs" / "wanted.yaml").only(("head", "tail", "runs"))
