"""`edgedla doctor`: what this machine has and lacks, each finding with its remedy."""

from __future__ import annotations

import json
import sys

import click

from edgedla.cli.board_option import BoardCommand
from edgedla.cli.output import echo

MARK = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL", "info": "    "}


@click.command(cls=BoardCommand)
@click.option(
    "--format", "output_format", type=click.Choice(("text", "json")), default="text", help="Form of the output."
)
def doctor(output_format: str) -> None:
    """Check this machine: JetPack, TensorRT, DLA cores and libraries, Python packages, camera, clocks.

    Works on a laptop too. Exit code 4 if something that edgedla needs here is missing.
    """
    from edgedla.runtime.board.doctor import doctor as look
    from edgedla.runtime.board.doctor import summary

    found = look()
    document = summary(found)
    if output_format == "json":
        echo(json.dumps(document, indent=1))
    else:
        for c in sorted(found, key=lambda c: ("fail", "warn", "ok", "info").index(c.state)):
            echo(f"{MARK[c.state]} {c.name}: {c.found}")
            if c.remedy and c.state != "ok":
                echo(f"       {c.remedy}")
    if not document["ok"]:
        sys.exit(4)
