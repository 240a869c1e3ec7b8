"""`edgedla layers MODEL`: the TensorRT layers that NVIDIA's ONNX parser makes of a model."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import click

from edgedla.cli.arguments.models import as_file
from edgedla.cli.options import output_options, platform_options, shape_options
from edgedla.cli.output import deliver, destinations

FORMATS = ("text", "json")


@click.command()
@click.argument("model", metavar="MODEL")
@platform_options()
@shape_options()
@output_options(*FORMATS)
def layers(
    model: str,
    target: str,
    jetpack: Optional[str],
    trt: Optional[str],
    shapes: Any,
    batch: Optional[int],
    output_format: Optional[str],
    output: Tuple[str, ...],
) -> None:
    """Show the TensorRT layers that an ONNX model becomes, without layers whose outputs are constant at build time.

    If TensorRT's parser refuses the model, the command shows the parser's reason and ends with exit code 3.
    """
    targets = destinations(output_format, output, FORMATS)
    from edgedla.importers import load_onnx
    from edgedla.reports.layers import render_layers
    from edgedla.targets import platform_for

    release = platform_for(target, jetpack=jetpack, trt=trt).release
    graph = load_onnx(as_file(model, shapes, batch), trt=release.trt, shapes=shapes, batch=batch)
    deliver(targets, lambda wanted, terminal: render_layers(graph, wanted, terminal))
