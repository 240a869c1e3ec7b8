"""`edgedla deploy MODEL --target T -o OUT`: one call from a model to an accepted artifact with its test report."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import click

from edgedla.cli.accuracy.metric_options import NAMES
from edgedla.cli.accuracy.progress import progress_bar
from edgedla.cli.arguments.option import option
from edgedla.cli.arguments.preprocess import preprocess_options, preprocess_settings
from edgedla.cli.deploy.sizes import SizesType
from edgedla.cli.options import memory_option, platform_options
from edgedla.cli.output import echo
from edgedla.errors import UsageError

FORMATS = ("text", "json", "markdown", "html")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

EPILOG = """\
Levels: 0 the model as it is, FP16; 1 exact rewrites, each proven (the default without --data); 2 INT8 with calibration
and mixed precision as well (the default with --data); 3 approximate rewrites as well. From level 2 on everything holds
--metric within --max-drop.
"""


def parse_drop(text: str) -> float:
    """`0.5%` or `0.005`, in the metric's own unit.

    Raises:
        UsageError: no number.
    """
    number, percent = (text[:-1], 100.0) if text.endswith("%") else (text, 1.0)
    try:
        return float(number) / percent
    except ValueError as e:
        raise UsageError(f"{text!r} is no drop", where="--max-drop", allowed="0.5%, or 0.005") from e


def parse_budget(text: str) -> float:
    """`10m`, `90s`, `1h` or seconds.

    Raises:
        UsageError: another form, or 0.
    """
    match = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?)\s*(s|min|m|h)?", text.strip())
    if match is None or not float(match[1]) > 0:
        raise UsageError(f"{text!r} is no time", where="--budget", allowed="10m, 90s, 1h, or seconds")
    return float(match[1]) * _SECONDS[match[2] or ""]


@click.command(epilog=EPILOG)
@click.argument("model", metavar="MODEL")
@option("-o", "--output", "out", required=True, metavar="FOLDER", help="Artifact, model, and reports; a new or "
              "empty folder, or this model's earlier one: a second call goes on from the steps that are finished.")  # fmt: skip
@platform_options()
@option("--level", type=click.IntRange(0, 3), help="What may be changed; see below.  [default: 2 with --data, else 1]")
@option(
    "--objective", type=click.Choice(["latency", "throughput", "energy", "loadables"]), default="latency",
    show_default=True, help="What every step has to lower, as predicted.",
)  # fmt: skip
@option(
    "--place", type=click.Choice(["best", "dla"]), default="best", show_default=True,
    help="best: the placement of least cost, which may leave the DLA empty; dla: whatever the DLA takes runs on one core, "
    "as TensorRT places it, and the GPU is free for other work.",
)  # fmt: skip
@option("--devices", joins=True, metavar="LIST", help="Devices that the best placement may use: GPU,DLA0,DLA1.")
@option(
    "--max-latency", type=float, metavar="US",
    help="Longest latency of a frame, in microseconds: as measured on a Jetson, elsewhere as predicted.",
)  # fmt: skip
@option(
    "--data", metavar="PATH",
    help="Samples: a folder of pictures, a video, a .npz (with `labels`) or .npy, or a folder of them; `random` tries the "
    "flow. Three fifths calibrate, one judges steps, the last is looked at once, at the end.",
)  # fmt: skip
@option("--holdout", metavar="PATH", help="Samples for the end in place of the last fifth of --data.")
@option(
    "--metric", metavar="NAME", help=f"{NAMES}  [default: l2, which needs no labels]",
)  # fmt: skip
@option("--decode", metavar="NAME", help="For map: yolov5, yolov8, yolo11 or ssd.")
@option("--reg-max", type=click.IntRange(1, 256), default=16, help="Bins of a YOLOv8 box distribution.  [default: 16]")
@option("--iou", type=click.FloatRange(0, 1), default=0.6, help="For map: of the decoder's NMS.  [default: 0.6]")
@option("--max-drop", default="0.5%", show_default=True, metavar="X", help="Largest fall of the metric: 0.5%, 0.005.")
@option(
    "--approximate", type=float, default=0.03, show_default=True, metavar="MAX_ERROR",
    help="Level 3: largest relative L2 error of one rewritten site.",
)  # fmt: skip
@option("--budget", metavar="TIME", help="Time for the whole: 10m, 90s. The best so far stands.")
@preprocess_options()
@option(
    "--shapes", type=SizesType(), multiple=True, metavar="NAME:DIMS",
    help="Fix input shapes: name:1x3x224x224. Several times, or with a range (1x3x224..416/64x224; equal ranges vary "
    "together): an engine per size.",
)  # fmt: skip
@option("--batch", type=click.IntRange(min=1), help="Set the first dimension of every input.")
@option("--power-mode", metavar="NAME", help="nvpmodel mode that predicted costs hold for.")
@option(
    "--backend", type=click.Choice(["auto", "tensorrt", "host"]), default="auto", show_default=True,
    help="Of the artifact: tensorrt on a Jetson, host (simulated) elsewhere.",
)  # fmt: skip
@memory_option()
@option("--fresh", is_flag=True, help="Forget the steps that an earlier call has finished.")
@option("--format", "output_format", type=click.Choice(FORMATS), default="text", show_default=True)
def deploy(model: str, out: str, **given: Any) -> int:
    """One call from a model to an accepted artifact: fix, quantise, place, build and measure, each kept where it helps.

    Writes the artifact, the model that was built, its placement and scales, and the test report (report.html, report.md,
    deployment.json). Costs are predicted; on a laptop accuracy is simulated. Exit code 0: accepted; 1: the metric falls
    too far on the last samples, or no frame keeps --max-latency; 2: FOLDER holds other files, or another model's
    deployment; 5: a build failed, or another deployment with other options writes into FOLDER now.
    """
    from edgedla.deployment.claim import claim
    from edgedla.deployment.deploy import deploy as run
    from edgedla.deployment.request import DeployRequest
    from edgedla.deployment.source import check_sizes
    from edgedla.reports.deployment import render_deployment

    sizes: List[Optional[Dict[str, List[int]]]] = [size for option in given.pop("shapes") for size in option] or [None]
    wanted, fresh = given.pop("output_format"), given.pop("fresh")
    max_latency, budget, drop = given.pop("max_latency"), given.pop("budget"), given.pop("max_drop")
    given["preprocess"] = preprocess_settings(given)
    accepted: List[bool] = []
    requests = [
        DeployRequest(
            shapes=shapes, max_latency_us=max_latency, budget_s=parse_budget(budget) if budget else None,
            max_drop=parse_drop(drop), **given,
        )
        for shapes in sizes
    ]  # fmt: skip
    if len(requests) > 1:
        claim(Path(out), model, [size_name(request.shapes) for request in requests])
        check_sizes(model, requests)
    for request in requests:
        folder = out if len(requests) == 1 else os.path.join(out, size_name(request.shapes))
        with progress_bar() as bar:
            deployment = run(
                model, folder, request=request, fresh=fresh, progress=bar, say=lambda line: echo(line, err=True)
            )
        for path in deployment.files(deployment.folder):
            echo(f"written {path}", err=True)
        echo(render_deployment(deployment, wanted), nl=False)
        accepted.append(deployment.accepted)
    return 0 if all(accepted) else 1


def size_name(shapes: Optional[Mapping[str, Sequence[int]]]) -> str:
    """A folder's name for one set of sizes: 1x3x224x224, several inputs joined by `_`."""
    return "_".join("x".join(map(str, dims)) for dims in (shapes or {}).values())
