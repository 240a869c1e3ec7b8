"""`edgedla evaluate ARTIFACT|MODEL --data SAMPLES --metric NAME`: accuracy on samples, with its confidence interval."""

from __future__ import annotations

from typing import Any, Dict, Optional

import click

from edgedla.cli.accuracy.progress import progress_bar
from edgedla.cli.options import ShapesType, memory_option, preprocess_options, preprocess_settings
from edgedla.errors import UsageError


@click.command()
@click.argument("network", metavar="ARTIFACT|MODEL")
@click.option(
    "--data", required=True, metavar="PATH", help="Samples: a .npz (with `labels`) or .npy, or a folder of them."
)
@click.option(
    "--metric",
    default="top1",
    show_default=True,
    metavar="NAME",
    help="top1, top5, miou, map, cosine, or module:function.",
)
@click.option("--decode", metavar="NAME", help="For map: yolov5, yolov8, yolo11 or ssd.")
@click.option(
    "--reg-max", type=click.IntRange(1, 256), default=16, help="Bins of a YOLOv8 box distribution.  [default: 16]"
)
@click.option("--iou", type=click.FloatRange(0, 1), default=0.6, help="For map: of the decoder's NMS.  [default: 0.6]")
@click.option("--against", metavar="MODEL", help="Another model or artifact: the difference, with its interval.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first samples.")
@click.option("--shapes", type=ShapesType(), metavar="NAME:DIMS", help="Fix input shapes: name:1x3x224x224.")
@click.option(
    "--max-drop", type=float, metavar="X", help="Exit with 1 where the metric is more than X below --against's."
)
@memory_option()
@preprocess_options()
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def evaluate(network: str, data: str, against: Optional[str], **given: Any) -> int:
    """Accuracy of a model (FP32) or a built artifact (simulated) on your samples, with a 95 % confidence interval.

    An artifact that edgedla's host backend built is simulated INT8 or FP16. An .npz holds the inputs by name and the
    right answers as `labels`.
    """
    from edgedla.accuracy.evaluate import evaluate as run
    from edgedla.accuracy.evaluate import open_network
    from edgedla.accuracy.metrics import metric_of
    from edgedla.preprocess.pictures import open_samples
    from edgedla.preprocess.settings import agreed
    from edgedla.reports.quantization import render_evaluation

    if given["max_drop"] is not None and against is None:
        raise UsageError("a largest drop needs another network", where="--max-drop", hint="name it with --against")
    opened = open_network(network, given["shapes"])
    metric = _map(opened, given) if given["metric"] == "map" else metric_of(given["metric"])
    other = open_network(against, given["shapes"]) if against is not None else None
    made_for = opened.preprocess
    pictures = preprocess_settings(given)
    if made_for is not None and pictures is not None:
        agreed(made_for, pictures.to_dict(), "--preprocess")
    samples = open_samples(data, opened.inputs, made_for or pictures, given["limit"])
    with progress_bar() as bar:
        show = None if bar is None else (lambda done, of, bar=bar: bar("evaluating", done, of))
        result = run(opened, samples, metric, other, show)
    click.echo(render_evaluation(result, given["output_format"]), nl=False)
    dropped = (
        result.difference is not None and given["max_drop"] is not None and -result.difference[0] > given["max_drop"]
    )
    return 1 if dropped else 0


def _map(opened: Any, given: Dict[str, Any]) -> Any:
    from edgedla.runtime.decode.make_decoder import DecodeOptions
    from edgedla.runtime.decode.map_metric import LEAST_SCORE, map_metric

    if given["decode"] is None:
        raise UsageError("mAP needs a decoder", where="--metric map", hint="for example --decode yolov8")
    options = DecodeOptions(given["decode"], score=LEAST_SCORE, iou=given["iou"], reg_max=given["reg_max"])
    return map_metric(options, opened.outputs, opened.inputs[0].shape)
