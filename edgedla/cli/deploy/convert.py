"""`edgedla convert SOURCE -o model.onnx`: a model of PyTorch, TensorFlow, Keras, TFLite or Paddle as ONNX."""

from __future__ import annotations

import json
from typing import Any

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.options import ShapesType, platform_options
from edgedla.cli.output import echo, require_apart


@click.command()
@click.argument("source", metavar="SOURCE")
@option("-o", "--output", "out", required=True, metavar="FILE", help="The ONNX file.")
@platform_options()
@option("--opset", type=click.IntRange(11, 25), help="Operator set.  [default: the newest that the target reads]")
@option("--shapes", type=ShapesType(), joins=True, metavar="NAME:DIMS", help="Sizes of inputs, where SOURCE says none.")
@option("--trust", is_flag=True, help="Load a file whose loading runs code that stands in it (pickles, .h5).")
@option(
    "--exporter", type=click.Choice(["auto", "torchscript", "dynamo"]), default="auto", show_default=True,
    help="Of PyTorch. dynamo writes operator set 18 or newer, which TensorRT 8 reads wrongly in part.",
)  # fmt: skip
@option(
    "--inputs-as-nchw", joins=True, default="", metavar="NAME,...|all",
    help="Of TensorFlow, Keras and TFLite: inputs that become N x C x H x W, which the DLA and `run` take, without a transpose.",
)  # fmt: skip
@option("--outputs-as-nchw", joins=True, default="", metavar="NAME,...|all", help="The same of outputs.")
@option(
    "--inputs",
    joins=True,
    default="",
    metavar="NAME,...",
    help="Of a frozen graph: where it begins.  [default: placeholders]",
)
@option("--outputs", joins=True, default="", metavar="NAME,...", help="Where it ends.  [default: what nothing reads]")
@option("--signature", default="", metavar="NAME", help="Of a SavedModel with several.  [default: serving_default]")
@option("--python", metavar="PROGRAM", help="Interpreter that has the framework.  [default: this one]")
@option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@option(
    "--fail-on", type=click.Choice(["difference", "never"]), default="difference", show_default=True,
    help="Exit with 1 where the outputs differ by more than rounding.",
)  # fmt: skip
def convert(source: str, out: str, output_format: str, fail_on: str, **given: Any) -> int:
    """A model of another framework as ONNX for the target's parser, compared with its source on seeded input.

    Takes torch.export programs (.pt2), TorchScript, pickled modules, TensorFlow SavedModels and frozen graphs (.pb), .keras,
    .h5, .tflite and Paddle's .pdmodel. Of a quantised TFLite model it writes the network in FP32 and its scales beside it
    (.scales.cache), or Q/DQ for TensorRT 11. It is loaded in a process of its own. Needs the framework and ONNX Runtime.
    """
    require_apart("-o", out)
    from edgedla.conversion.convert import convert as run
    from edgedla.conversion.converted import cache_path

    made = run(source, **given)
    made.save(out)
    if output_format == "json":
        echo(json.dumps({**made.to_dict(), "written": out}, indent=1))
    else:
        compared = (
            "not compared" if made.rel_l2 is None else f"relative L2 {made.rel_l2:.2g}, largest {made.max_abs:.2g}"
        )
        cache = [f"scales    {cache_path(out)}"] if made.cache else []
        lines = [
            f"written   {out}, operator set {made.opset}",
            *cache,
            f"by        {made.exporter}, {made.framework}",
            f"error     {compared}, against the source on seeded input (measured with ONNX Runtime)",
        ]
        echo("\n".join([*lines, *(f"note      {note}" for note in made.notes)]))
    return 1 if made.within is False and fail_on == "difference" else 0
