"""--metric with what mAP needs besides its name: shared by `evaluate`, `quantize` and `deploy`."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import click

from edgedla.cli.arguments.option import Command, option, stacked
from edgedla.vocabulary import METRICS, require_map

NAMES = f"{', '.join(METRICS)}, or module:function or FILE.py:function of (outputs, label)."
Opened = Callable[[], Tuple[Sequence[str], Sequence[int]]]


def metric_options(default: Optional[str], why: str = "") -> Callable[[Command], Command]:
    """--metric, and for mAP --decode, --reg-max and --iou.

    Args:
        why: the default in words, where another place fills it in.
    """
    shown = default or why
    return stacked(
        option("--metric", default=default, metavar="NAME", help=f"{NAMES}  [default: {shown}]" if shown else NAMES),
        option(
            "--decode",
            metavar="NAME",
            help="For map: yolov5, yolov8, yolo11, instances, pose, centernet, final (boxes after NMS), or module:function or "
            "FILE.py:function of your own.",
        ),
        option("--reg-max", type=click.IntRange(1, 256), help="For map: bins per side of a YOLOv8 box (reg_max).  [default: 16]"),
        option("--iou", type=click.FloatRange(0, 1), help="For map: IoU threshold of the decoder's NMS.  [default: 0.6]"),
    )


def classes_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--classes: which class each folder of pictures is."""

    def read(context: click.Context, parameter: click.Parameter, text: Optional[str]) -> Tuple[str, ...]:
        from edgedla.runtime.pipeline.reading import read_labels

        return read_labels(text or "")

    return option(
        "--classes",
        callback=read,
        metavar="FILE|A,B,C",
        help="Class names in the order of the network's outputs; in FILE one per line. A folder of pictures is named after its "
        "class.  [default: the folders of --data in order]",
    )


def chosen_metric(given: Dict[str, Any], network: Opened) -> Any:
    """The Metric that the options name; None where they name none.

    Args:
        network: () -> (names of the outputs, shape of the first input); asked for mAP only.

    Raises:
        UsageError: no such metric, mAP without a decoder, or a decoder without mAP.
    """
    settings = {name: given[name] for name in ("decode", "reg_max", "iou")}
    require_map(given["metric"], **settings)
    if given["metric"] is None:
        return None
    if given["metric"] != "map":
        from edgedla.accuracy.metrics import metric_of

        return metric_of(given["metric"])
    from edgedla.runtime.decode.map_metric import map_metric, map_options

    options = map_options(**settings)
    outputs, shape = network()
    return map_metric(options, outputs, shape)
