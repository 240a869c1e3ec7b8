"""`edgedla bundle ARTIFACT --pipeline FILE -o OUT`: the smallest installation that runs one pipeline on a board."""

from __future__ import annotations

import json
from typing import Optional

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.output import echo


@click.command()
@click.argument("artifact", required=False, metavar="[ARTIFACT]")
@option(
    "--pipeline",
    metavar="FILE",
    help="Pipeline file: pack its artifacts, with the modules for its sources, decoders and outputs.",
)
@option("-o", "--output", "out", required=True, metavar="OUT", help="A folder, or a file: .tar, .tar.gz, .tgz or .pyz.")
@option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def bundle(artifact: Optional[str], pipeline: Optional[str], out: str, output_format: str) -> None:
    """Pack an artifact with only those modules of edgedla that its pipeline uses: `python3 OUT` runs it.

    The board needs Python 3.8 or newer with NumPy, and what JetPack brings; no pip and no compiler. Every start verifies the
    files. Without --pipeline, name the source at the start: `python3 OUT --source csi://0`.
    """
    from edgedla.bundles.bundle import bundle as make

    made = make(artifact, out, pipeline=pipeline)
    if output_format == "json":
        echo(json.dumps(made.to_dict(), indent=1))
        return
    lines = [
        f"written   {made.path}, {made.path_bytes / 1e3:.0f} kB",
        f"holds     {made.modules} modules ({made.code_bytes / 1e3:.0f} kB), data {made.data_bytes / 1e3:.0f} kB",
        f"for       {', '.join(made.targets)}" + (" (SIMULATED, host backend)" if made.simulated else ""),
        f"needs     Python 3.8 or newer, {', '.join(made.needs)}",
        f"run       {made.command}",
    ]
    if made.lacking:
        lines.append(
            f"lacks     {', '.join(made.lacking)}, which must be on the board; paths are relative to the bundle's folder"
        )
    if made.private:
        lines.append("private   a source's address holds a password: only you can read the bundle (mode 0600)")
    echo("\n".join(lines))
