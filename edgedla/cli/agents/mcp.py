"""`edgedla mcp`: edgedla's questions as tools for a coding agent."""

from __future__ import annotations

from pathlib import Path
from typing import Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.output import echo


@click.command()
@option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    default=(".",),
    metavar="FOLDER",
    help="Models are read below this folder only. May be given several times.  [default: the current folder]",
)
@option("--limit", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds for one call of a tool.")
@option("--skill", is_flag=True, help="Print the skill file for an agent, SKILL.md, and end.")
def mcp(roots: Tuple[str, ...], limit: float, skill: bool) -> None:
    """Serve check, compare, fix (as a dry run), predict, explain and rules to a coding agent, by the Model Context Protocol.

    Speaks over standard input and output: the agent starts it, as AGENTS.md shows. It opens no port, writes no file, and reads
    models below --root only. Needs Python 3.10 and edgedla[mcp], on a laptop or a server.
    """
    if skill:
        echo(Path(__file__).with_name("SKILL.md").read_text(encoding="utf-8"), nl=False)
        return
    from edgedla.cli.agents.server import serve

    serve(roots, limit)
