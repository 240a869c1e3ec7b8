"""`edgedla deploy MODEL --target T -o OUT`: one call from a model to an accepted artifact with its test report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import click

from edgedla.cli.accuracy.metric_options import metric_options
from edgedla.cli.arguments.began import waited_s
from edgedla.cli.arguments.models import as_file
from edgedla.cli.arguments.option import DROP, DURATION_S, LATENCY_US, option
from edgedla.cli.arguments.preprocess import preprocess_options, preprocess_settings
from edgedla.cli.deploy.sizes import SizesType
from edgedla.cli.options import memory_option, platform_options
from edgedla.cli.output import echo, say
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import NOT_SHOWN_CODE

FORMATS = ("text", "json", "markdown", "html")

EPILOG = """\
Levels: 0 the model as it is, in FP16; 1 exact rewrites, each proven (the default without --data); 2 also INT8, with
calibration and mixed precision (the default with --data); 3 also approximate rewrites. From level 2 on a step is kept only
if --metric falls by at most --max-drop.
"""


@click.command(epilog=EPILOG)
@click.argument("model", metavar="MODEL")
@option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="FOLDER",
    help="Folder for artifact, model and reports: "
    "new or empty, or of an earlier call for this model, whose finished steps are reused.",
)
@platform_options()
@option(
    "--level", type=click.IntRange(0, 3), help="What deploy may change: see the levels below.  [default: 2 with --data, else 1]"
)
@option(
    "--objective",
    type=click.Choice(["latency", "throughput", "energy", "gpu-time", "loadables"]),
    default="latency",
    show_default=True,
    help="What every step must lower, as predicted; gpu-time: of the GPU per frame.",
)
@option(
    "--place",
    type=click.Choice(["best", "dla"]),
    default="best",
    show_default=True,
    help="best: the placement at the optimum of the predicted cost, which may leave the DLA empty; dla: one DLA core runs "
    "whatever it takes, as TensorRT places it, which leaves the GPU to other work.",
)
@option("--devices", joins=True, metavar="LIST", help="Devices that --place best may use: GPU,DLA0,DLA1.")
@option(
    "--max-latency",
    field="max_latency_us",
    type=LATENCY_US,
    metavar="TIME",
    help="Maximum latency per frame, measured on a Jetson, predicted elsewhere: 5000 (us), 5ms.",
)
@option(
    "--data",
    metavar="PATH",
    help="Samples: a folder of pictures, a video, a .npz (with `labels`) or .npy, a folder of them, or a set with "
    "labels (COCO, YOLO, Pascal VOC, masks); `random` only tries "
    "the procedure. Three fifths calibrate, one fifth decides on steps, the last fifth judges the result, once.",
)
@option("--holdout", metavar="PATH", help="Samples to judge the result on, in place of the last fifth of --data.")
@metric_options(None, "l2, 1 less the relative L2 error, which needs no labels")
@option(
    "--max-drop", type=DROP, default="0.5%", show_default=True, metavar="X", help="Maximum drop of the metric: 0.5% or 0.005."
)
@option(
    "--approximate",
    type=float,
    metavar="MAX_ERROR",
    help="Level 3: maximum relative L2 error of one rewritten place.  [default: 0.03]",
)
@option(
    "--budget",
    field="budget_s",
    type=DURATION_S,
    metavar="TIME",
    help="Time limit for the whole call: 10m, 90s. When it ends, the best result so far counts.",
)
@preprocess_options()
@option(
    "--shapes",
    type=SizesType(),
    multiple=True,
    metavar="NAME:DIMS",
    help="Fix input shapes: name:1x3x224x224. Given several times, or with a range (1x3x224..416/64x224), it builds an engine "
    "per size; equal ranges vary together.",
)
@option("--batch", type=click.IntRange(min=1), help="Set the first dimension of every input.")
@option(
    "--power-mode",
    metavar="NAME",
    help="nvpmodel mode to predict costs for.  [default: this Jetson's; elsewhere the module's default]",
)
@option(
    "--backend",
    type=click.Choice(["auto", "tensorrt", "host"]),
    default="auto",
    show_default=True,
    help="Backend of the artifact: tensorrt on a Jetson, host (simulated) elsewhere.",
)
@memory_option()
@option("--fresh", is_flag=True, help="Do not reuse finished steps of an earlier call.")
@option("--format", "output_format", type=click.Choice(FORMATS), default="text", show_default=True)
def deploy(model: str, out: str, **given: Any) -> int:
    """Turn a model into an accepted artifact in one call: fix, quantise, place, build and measure; keep what helps.

    Writes the artifact, the model that was built, its placement and scales, and the test report (report.html, report.md,
    deployment.json). Costs are predicted; on a laptop accuracy is simulated. Exit code 0: accepted; 1: the metric drops too
    far on the last samples, or nothing keeps --max-latency; 2: FOLDER holds other files, or another model's deployment; 5:
    a build failed, or a deployment with other options is writing into FOLDER; 7: the last samples cannot show that the metric
    holds.
    """
    from edgedla.cli.arguments.this_board import own_power_mode
    from edgedla.deployment.claim import claim
    from edgedla.deployment.deploy import deploy as run
    from edgedla.deployment.request import DeployRequest
    from edgedla.deployment.source import check_sizes
    from edgedla.reports.deployment import render_deployment

    sizes: List[Optional[Dict[str, List[int]]]] = [size for option in given.pop("shapes") for size in option] or [None]
    output_format, fresh = given.pop("output_format"), given.pop("fresh")
    limits = {"max_latency_us": given.pop("max_latency"), "budget_s": given.pop("budget")}
    given["preprocess"] = preprocess_settings(given)
    given["power_mode"] = given["power_mode"] or own_power_mode(given["target"])
    model = as_file(model, sizes[0], given.get("batch"))
    codes: List[int] = []
    requests = [DeployRequest(shapes=shapes, **limits, **given) for shapes in sizes]
    if len(requests) > 1:
        claim(Path(out), model, [size_name(request.shapes) for request in requests])
        check_sizes(model, requests)
    for n, request in enumerate(requests):
        spent_s = waited_s()
        if request.budget_s is not None:
            # Sizes share the time; what one leaves is the next ones'.
            spent_s = request.budget_s - (request.budget_s - spent_s) / (len(requests) - n)
        folder = out if len(requests) == 1 else os.path.join(out, size_name(request.shapes))
        with waiting("deploying") as work:
            deployment = run(model, folder, request=request, fresh=fresh, progress=work.show, say=say, spent_s=spent_s)
        for path in deployment.files(deployment.folder):
            say(f"written {path}")
        echo(render_deployment(deployment, output_format), nl=False)
        codes.append(0 if deployment.accepted else NOT_SHOWN_CODE if deployment.not_shown else 1)
    # "No" for one size is the answer for all.
    return 1 if 1 in codes else max(codes)


def size_name(shapes: Optional[Mapping[str, Sequence[int]]]) -> str:
    """A folder's name for one set of sizes: 1x3x224x224, several inputs joined by `_`."""
    return "_".join("x".join(map(str, dims)) for dims in (shapes or {}).values())
