"""`edgedla monitor`: DLA load, clocks, temperatures and power of this Jetson."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Optional

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.board_option import BoardCommand
from edgedla.cli.output import echo

if TYPE_CHECKING:
    from edgedla.runtime.board.monitor import Sample


@click.command(cls=BoardCommand)
@option("--interval", type=click.FloatRange(min=0.05), default=1.0, show_default=True, help="Seconds between samples.")
@option("--count", type=click.IntRange(min=0), default=0, help="Stop after this many samples.  [default: at Ctrl-C]")
@option(
    "--format",
    "output_format",
    type=click.Choice(("text", "json")),
    default="text",
    help="text, or json with one object per line.",
)
def monitor(interval: float, count: int, output_format: str) -> None:
    """Watch this Jetson: busy share of the DLA cores, clocks, temperatures, power, and warnings.

    The busy share is the share of time that a core was powered on: an upper bound of its load. Reads the kernel's files, and
    tegrastats for DLA clocks, which those files show only to root. Needs no root daemon.
    """
    from edgedla.runtime.board.monitor import samples

    shown: Optional[tuple] = None
    for sample in samples(interval, count):
        if output_format == "json":
            echo(json.dumps(sample.to_dict(), sort_keys=True))
            continue
        echo(_line(sample))
        if sample.warnings != shown:
            for warning in sample.warnings:
                echo(f"warning: {warning}", err=True)
            shown = sample.warnings


def _line(s: Sample) -> str:
    parts = [f"{name} {'-' if share is None else f'{share:.0%}'}" for name, share in sorted(s.dla_busy.items())]
    parts += [f"{name} {mhz:g} MHz" for name, mhz in sorted(s.clocks_mhz.items()) if name in ("gpu", "emc", "dla0", "dla1")]
    if s.temperatures_c:
        hottest = max(s.temperatures_c, key=lambda k: s.temperatures_c[k])
        parts.append(f"{hottest} {s.temperatures_c[hottest]:.1f} C")
    if s.power_total_mw:
        parts.append(f"power {s.power_total_mw / 1000:.1f} W")
    if s.power_mode:
        parts.append(s.power_mode)
    return "  ".join(parts)
