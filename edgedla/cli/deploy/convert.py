"""`edgedla convert SOURCE -o model.onnx`: a model of PyTorch, TensorFlow, Keras, TFLite or Paddle as ONNX."""

from __future__ import annotations

import json
from typing import Any

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.arguments.shapes import ShapesType
from edgedla.cli.options import platform_options
from edgedla.cli.output import echo, require_apart
from edgedla.cli.terminal.waiting import waiting


@click.command()
@click.argument("source", metavar="SOURCE")
@option("-o", "--output", "out", required=True, metavar="FILE", help="The ONNX file.")
@platform_options()
@option("--opset", type=click.IntRange(11, 25), help="Operator set.  [default: the newest that the target reads]")
@option("--shapes", type=ShapesType(), joins=True, metavar="NAME:DIMS", help="Shapes of inputs that SOURCE leaves open.")
@option("--trust", is_flag=True, help="Load SOURCE although loading it runs code in it (pickles, .h5).")
@option(
    "--exporter",
    type=click.Choice(["auto", "torchscript", "dynamo"]),
    default="auto",
    show_default=True,
    help="For PyTorch: its exporter. dynamo writes operator set 18 or newer, of which TensorRT 8 reads some operators wrongly.",
)
@option(
    "--inputs-as-nchw",
    joins=True,
    default="",
    metavar="NAME,...|all",
    help="For TensorFlow, Keras and TFLite: make these inputs N x C x H x W, which the DLA and `run` take without a transpose.",
)
@option(
    "--outputs-as-nchw",
    joins=True,
    default="",
    metavar="NAME,...|all",
    help="For TensorFlow, Keras and TFLite: the same for outputs.",
)
@option(
    "--inputs", joins=True, default="", metavar="NAME,...", help="For a frozen graph: its inputs.  [default: its placeholders]"
)
@option(
    "--outputs",
    joins=True,
    default="",
    metavar="NAME,...",
    help="For a frozen graph: its outputs.  [default: tensors that no node reads]",
)
@option("--signature", default="", metavar="NAME", help="For a SavedModel: its signature.  [default: serving_default]")
@option("--python", metavar="PROGRAM", help="Python interpreter that has the framework.  [default: this one]")
@option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@option(
    "--fail-on",
    type=click.Choice(["difference", "never"]),
    default="difference",
    show_default=True,
    help="Exit with 1 if the outputs differ by more than rounding (difference), or never.",
)
def convert(source: str, out: str, output_format: str, fail_on: str, **given: Any) -> int:
    """Convert a model of another framework to ONNX for the target's parser, and compare both on seeded input.

    Takes torch.export programs (.pt2), TorchScript, checkpoints of Ultralytics (by their own exporter), pickled modules,
    TensorFlow SavedModels and frozen graphs (.pb), .keras, .h5, .tflite and Paddle's .pdmodel. A quantised TFLite model becomes
    an FP32 network with its scales in a file beside it (.scales.cache), or with Q/DQ nodes for TensorRT 11. A separate process
    loads the source. Needs the framework and ONNX Runtime.
    """
    require_apart("-o", out)
    from edgedla.conversion.convert import convert as run
    from edgedla.conversion.converted import cache_path

    with waiting("converting"):
        made = run(source, **given)
    made.save(out)
    if output_format == "json":
        echo(json.dumps({**made.to_dict(), "written": out}, indent=1))
    else:
        compared = "not compared" if made.rel_l2 is None else f"relative L2 {made.rel_l2:.2g}, largest {made.max_abs:.2g}"
        cache = [f"scales    {cache_path(out)}"] if made.cache else []
        lines = [
            f"written   {out}, operator set {made.opset}",
            *cache,
            f"by        {made.exporter}, {made.framework}",
            f"error     {compared}, against the source on seeded input (measured with ONNX Runtime)",
        ]
        echo("\n".join([*lines, *(f"note      {note}" for note in made.notes)]))
    return 1 if made.within is False and fail_on == "difference" else 0
