"""`edgedla --version`, and with --verbose the digests of code and data and the libraries."""

from __future__ import annotations

import sys

import click

from edgedla.cli.output import echo
from edgedla.version import version


def show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    echo(f"edgedla, version {version()}")
    if ctx.params.get("verbose"):
        from edgedla.identity import identity, libraries

        found = {**identity().digests, "python": sys.version.split()[0], **libraries()}
        echo("\n".join(f"{name:12}{value or 'not installed'}" for name, value in found.items()))
    ctx.exit()
