"""`edgedla acceptance`: truth reports of boards, shown or taken in as evidence."""

from __future__ import annotations

from pathlib import Path

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.output import echo


@click.group()
def acceptance() -> None:
    """Truth reports of boards, written by `edgedla doctor --deep`: show one, or store it as evidence."""


@acceptance.command()
@click.argument("file", type=click.Path(path_type=Path))
def show(file: Path) -> None:
    """Print a truth report on one page: what was tried, what differs from the prediction, what could not be tried."""
    from edgedla.acceptance.archive import unpack
    from edgedla.acceptance.text import summary

    report, members = unpack(file)
    echo(summary(report))
    echo("files: " + ", ".join(sorted(members)))


@acceptance.command()
@click.argument("file", type=click.Path(path_type=Path))
@option(
    "--into",
    type=click.Path(path_type=Path),
    default=Path("rules/evidence/boards"),
    show_default=True,
    help="Folder of the evidence; each report gets a subfolder.",
)
def ingest(file: Path, into: Path) -> None:
    """Store a truth report as evidence: verdicts, times and samples in separate files. Changes no rule."""
    from edgedla.acceptance.ingest import ingest as take_in

    learned = take_in(file, into)
    echo(f"verdicts: {learned.observed} observed, {learned.contradicted} contradicted")
    echo(f"times: {learned.times} taken, {len(learned.refused_times)} refused")
    for reason in learned.refused_times:
        echo(f"  {reason}")
    if learned.numerics:
        echo(f"arithmetic of the DLA: {learned.numerics} findings (rules/numerics.yaml)")
    echo(f"samples: {learned.samples}; all written to {learned.folder}")
    if learned.profiled:
        echo(f"operators' times for the cost model: {learned.profiled}; fit it by")
        echo(f"  edgedla costs fit {learned.folder}/models/*.onnx --evidence {learned.folder}/profile.json -o fitted.json")
