"""`edgedla targets`: the Jetson modules and releases that edgedla knows, and on which of them the DLA works."""

from __future__ import annotations

from typing import Optional, Tuple

import click

from edgedla.cli.options import output_options
from edgedla.cli.output import deliver, destinations

FORMATS = ("text", "json")


@click.command()
@click.argument("module", required=False)
@output_options(*FORMATS)
def targets(module: Optional[str], output_format: Optional[str], output: Tuple[str, ...]) -> None:
    """List the Jetson modules with their DLA cores, or the releases of one MODULE and whether its DLA works there."""
    where = destinations(output_format, output, FORMATS)
    from edgedla.reports.targets import render_module, render_modules

    if module is None:
        deliver(where, lambda wanted, terminal: render_modules(wanted, terminal))
    else:
        deliver(where, lambda wanted, terminal: render_module(module, wanted, terminal))
