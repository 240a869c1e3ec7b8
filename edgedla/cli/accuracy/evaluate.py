"""`edgedla evaluate ARTIFACT|MODEL --data SAMPLES --metric NAME`: accuracy on samples, with its confidence interval."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any, Dict, Optional

import click

from edgedla.cli.accuracy.metric_options import chosen_metric, classes_option, metric_options
from edgedla.cli.arguments.option import DROP, option
from edgedla.cli.arguments.preprocess import preprocess_options, preprocess_settings
from edgedla.cli.arguments.shapes import ShapesType
from edgedla.cli.options import memory_option
from edgedla.cli.output import deliver
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import NOT_SHOWN_CODE, UsageError


@click.command()
@click.argument("network", metavar="ARTIFACT|MODEL")
@option(
    "--data",
    required=True,
    metavar="PATH",
    help="Samples: a .npz (with `labels`) or .npy, a folder of them, a folder of pictures (in one folder per class), a "
    "video, or labels on disk: COCO's .json, YOLO's data.yaml, a folder of Pascal VOC, `images` beside `masks`.",
)
@metric_options("top1")
@option("--against", metavar="MODEL", help="Compare with this model or artifact: shows the difference with its interval.")
@option("--limit", type=click.IntRange(min=1), help="Use only this many samples, from the first on.")
@option("--shapes", type=ShapesType(), metavar="NAME:DIMS", help="Fix input shapes: name:1x3x224x224.")
@option(
    "--max-drop",
    type=DROP,
    metavar="X",
    help="Exit with 1 where the metric is more than X (1% or 0.01) below --against's, with 7 where the samples cannot show that it "
    "is not.",
)
@memory_option()
@classes_option()
@preprocess_options()
@option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def evaluate(network: str, data: str, against: Optional[str], **given: Any) -> int:
    """Accuracy of a model (FP32) or a built artifact on your samples, with a 95 % confidence interval.

    An artifact of edgedla's host backend runs simulated, in INT8 or FP16. One that TensorRT built runs on its device, on
    the Jetson that it was built for. An .npz holds the inputs by name and the right answers as `labels`.
    """
    from edgedla.accuracy.evaluate import open_network
    from edgedla.reports.quantization import render_evaluation

    if given["max_drop"] is not None and against is None:
        raise UsageError("nothing to compare with", where="--max-drop", hint="name the other network with --against")
    with ExitStack() as stack:
        devices = partial(_on_device, stack)
        opened = open_network(network, given["shapes"], devices)
        metric = chosen_metric(given, lambda: (opened.outputs, opened.inputs[0].shape))
        other = open_network(against, given["shapes"], devices) if against is not None else None
        result = _evaluated(opened, other, metric, data, given)
    deliver([(given["output_format"], "-")], lambda wanted, terminal: render_evaluation(result, wanted, terminal))
    return 0 if result.judgement is None else {"shown": 0, "exceeded": 1}.get(result.judgement.answer, NOT_SHOWN_CODE)


def _on_device(stack: ExitStack, artifact: Any, name: str) -> Any:
    from edgedla.runtime.runners.network import device_network

    return device_network(artifact, name, stack)


def _evaluated(opened: Any, other: Any, metric: Any, data: str, given: Dict[str, Any]) -> Any:
    from edgedla.accuracy.evaluate import evaluate as run
    from edgedla.preprocess.pictures import open_samples, require_pictures
    from edgedla.preprocess.settings import agreed

    made_for = opened.preprocess or (None if other is None else other.preprocess)
    pictures = preprocess_settings(given, made_for)
    for where, asked in (("--preprocess", pictures), ("--against", None if other is None else other.preprocess)):
        if made_for is not None and asked is not None:
            agreed(made_for, asked.to_dict(), where)
    require_pictures(data, pictures, given["classes"])
    samples = open_samples(data, opened.inputs, made_for or pictures, given["limit"], given["classes"])
    with waiting("evaluating") as work:
        return run(opened, samples, metric, other, partial(work.show, "evaluating"), given["max_drop"])
