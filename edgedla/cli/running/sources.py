"""`edgedla sources`: the cameras of this machine, and of a network, as sources of a pipeline file."""

from __future__ import annotations

import json

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.board_option import BoardCommand
from edgedla.cli.output import echo


@click.command(cls=BoardCommand)
@option(
    "--onvif",
    default="",
    metavar="[USER:PASSWORD@]NETWORK|INTERFACE",
    help="Also ask this network, as 192.168.1.0/24 or eth0, for ONVIF cameras.",
)
@option("--format", "output_format", type=click.Choice(("text", "json")), default="text", help="Form of the output.")
def sources(onvif: str, output_format: str) -> None:
    """List cameras with their formats, as the `sources` of a pipeline file: those of this machine, and ONVIF ones of a network.

    Nothing is sent to a network without --onvif. That needs Python 3.9 or newer and `pip install 'edgedla[onvif]'`, takes 4 s, and
    finds IPv4 addresses. Most cameras tell the path of their stream only to a user; the password may be in EDGEDLA_ONVIF_PASSWORD.
    """
    from edgedla.io.documents import header
    from edgedla.runtime.sources.cameras import cameras
    from edgedla.targets.jetson import root
    from edgedla.text.printable import printable

    found = tuple(cameras(root()))
    if onvif:
        from edgedla.runtime.sources.onvif import discovered

        found += discovered(onvif)
    if output_format == "json":
        echo(json.dumps({**header("edgedla.sources"), "sources": [camera.to_dict() for camera in found]}, indent=1))
    elif found:
        lines = [f"  # {printable(camera.told)}\n  camera{n}: {camera.line}" for n, camera in enumerate(found)]
        echo("\n".join(["sources:", *lines]))
    else:
        echo("no camera here" + (f", and none answered on {onvif}" if onvif else "") + ": `edgedla doctor` says what is missing")
