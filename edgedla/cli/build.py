"""`edgedla build MODEL -o OUT`: an engine or DLA loadable on a Jetson, a simulated artifact anywhere else, or a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Tuple

import click

from edgedla.cli.arguments.build_platform import fill_platform
from edgedla.cli.arguments.build_request import build_request, with_own_scales
from edgedla.cli.arguments.build_trtexec import take_over
from edgedla.cli.arguments.models import as_file
from edgedla.cli.arguments.option import option
from edgedla.cli.arguments.preprocess import preprocess_options
from edgedla.cli.board_option import BoardCommand
from edgedla.cli.options import format_options, memory_option, platform_flags, resolve_models, shape_options, split_trtexec
from edgedla.cli.output import deliver, echo, say
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import UsageError
from edgedla.vocabulary import CALIBRATION_METHODS, PRECISIONS

if TYPE_CHECKING:
    from edgedla.accuracy.result import Quantized
    from edgedla.builder.plan.measured_scales import BuiltScales

EPILOG = """\
trtexec's spellings are accepted: --onnx, --useDLACore, --allowGPUFallback, --buildDLAStandalone, --fp16, --int8,
--best, --calib, --memPoolSize, --inputIOFormats, --outputIOFormats, --layerPrecisions, --layerDeviceTypes,
--precisionConstraints, --sparsity.
"""


@click.command(cls=BoardCommand, epilog=EPILOG)
@click.argument("models", nargs=-1, metavar="MODEL")
@option(
    "-o",
    "--output",
    "out",
    metavar="FOLDER",
    help="Folder of the artifact. With --backend trtexec: folder of the scripts, or NAME.sh.",
)
@platform_flags()
@shape_options()
@option(
    "--precision",
    type=click.Choice(PRECISIONS, case_sensitive=False),
    help="int8 is INT8 with FP16 allowed.  [default: fp16, or the placement's]",
)
@option(
    "--mode",
    type=click.Choice(["hybrid", "standalone"]),
    help="hybrid: a TensorRT engine that runs on the GPU what the DLA refuses; standalone: one DLA loadable.  [default: hybrid]",
)
@option(
    "--backend",
    type=click.Choice(["auto", "tensorrt", "host", "trtexec"]),
    default="auto",
    show_default=True,
    help="tensorrt: build here, on a Jetson; host: simulate the DLA's precision with ONNX Runtime; trtexec: write a script "
    "that builds with trtexec; auto: tensorrt on a Jetson, host elsewhere.",
)
@option(
    "--placement",
    metavar="FILE",
    help="Take each layer's device from this file of `edgedla place -o FILE`, not from the rules' verdicts.",
)
@option("--dla-core", type=click.IntRange(0, 1), help="DLA core.  [default: 0]")
@option("--calib", metavar="FILE", help="INT8 scales: a TensorRT calibration cache, or the folder of `edgedla quantize`.")
@option(
    "--calib-data",
    metavar="PATH",
    help="Measure INT8 scales on these samples: a folder of pictures or a video, preprocessed as in `run`; or a .npz or .npy, "
    "or a folder of them, already preprocessed. With --calib the scales are the cache's, and the host backend measures "
    "its error on the samples.",
)
@option(
    "--calib-method",
    default="auto",
    show_default=True,
    metavar="METHOD",
    help=f"{', '.join(CALIBRATION_METHODS)}, or percentile:99.9.",
)
@option(
    "--calib-search",
    is_flag=True,
    help="Choose scales by the error at the outputs, as `edgedla quantize` does, not by each tensor's histogram. About "
    "ten times slower.",
)
@preprocess_options()
@option("--set-ranges", is_flag=True, help="Set each tensor's dynamic range through TensorRT's API, without a calibrator.")
@format_options()
@option("--reformat-free", is_flag=True, help="Choose input and output formats that need no reformat, in hybrid mode too.")
@option("--pools", "--memPoolSize", "pools", joins=True, metavar="LIST", help="As dlaSRAM:512K,dlaLocalDRAM:1024 (MiB).")
@option("--engines", type=click.IntRange(min=1), default=1, help="How many engines share the DLA's SRAM.  [default: 1]")
@option(
    "--layer-devices",
    "--layerDeviceTypes",
    "layer_devices",
    field="devices",
    joins=True,
    metavar="LIST",
    help="As name:GPU,part*:DLA.",
)
@option(
    "--layer-precisions",
    "--layerPrecisions",
    "layer_precisions",
    field="precisions",
    joins=True,
    metavar="LIST",
    help="As name:fp16.",
)
@option("--obey-precision", is_flag=True, help="Treat --layer-precisions as constraints that must be obeyed, not as preferences.")
@option(
    "--sparsity", type=click.Choice(["enable", "disable"]), default="disable", help="Let the DLA use 2:4 structured sparsity."
)
@option("--no-timing-cache", is_flag=True, help="Time every kernel anew: use no timing cache.")
@option("--allow-unknown", is_flag=True, help="Let TensorRT decide the device of layers with an unknown verdict.")
@option(
    "--allow-drift", is_flag=True, help="Move layers that TensorRT refuses, against the verdict, to the GPU, and report them."
)
@option(
    "--numerics",
    joins=True,
    metavar="NAME=VARIANT,...",
    help="Host backend: choose its arithmetic where the DLA's is not known, as int8-rounding=half-even; rules/numerics.yaml "
    "lists the choices.",
)
@option("--plan", "plan_only", is_flag=True, help="Print the plan and build nothing.")
@memory_option()
@option("--force", is_flag=True, help="Build again even if the folder holds this same build.")
@option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@option(
    "--fail-on",
    type=click.Choice(["accuracy", "never"]),
    default="never",
    show_default=True,
    help="Exit with 1 if the simulated result is outside its tolerance (accuracy), or never.",
)
@option("--onnx", "trtexec_onnx", hidden=True)
@option("--useDLACore", "trtexec_core", hidden=True, type=int)
@option("--allowGPUFallback", "trtexec_fallback", hidden=True, is_flag=True)
@option("--buildDLAStandalone", "trtexec_standalone", hidden=True, is_flag=True)
@option("--fp16", "trtexec_fp16", hidden=True, is_flag=True)
@option("--int8", "trtexec_int8", hidden=True, is_flag=True)
@option("--best", "trtexec_best", hidden=True, is_flag=True)
@option("--precisionConstraints", "trtexec_constraints", hidden=True, type=click.Choice(["none", "prefer", "obey"]))
def build(models: Tuple[str, ...], **given: Any) -> int:
    """Build a model for the DLA: a TensorRT engine or DLA loadable on a Jetson, a simulated artifact elsewhere.

    The artifact is a folder with a manifest; it is written completely or not at all. Exit code 5: the builder refused or
    failed; 3: the model is broken; 4: TensorRT or a DLA core is missing.
    """
    trtexec = split_trtexec(given)
    candidates = resolve_models(models, trtexec, given)
    if len(candidates) != 1:
        raise UsageError(f"{len(candidates)} models given", allowed="one")
    take_over(given, trtexec)
    if given["out"] is None and trtexec["trtexec_onnx"] and not given["plan_only"]:
        # A pasted trtexec line may save nothing; a build always writes a folder.
        given["out"] = Path(candidates[0]).stem
        echo(f"edgedla: without --saveEngine the artifact is {given['out']}", err=True)
    fill_platform(given)
    out = given["out"]
    if out is None and not given["plan_only"]:
        raise UsageError("no output given", where="-o", allowed="a folder, or --plan to build nothing")
    from edgedla.builder.building import build as build_artifact
    from edgedla.builder.building import plan_stages, write_scripts
    from edgedla.reports.build import render_build, render_plans

    model, where = as_file(candidates[0], given["shapes"], given["batch"]), [(given["output_format"], "-")]
    request = with_own_scales(model, (*models, trtexec["trtexec_onnx"])[0], build_request(given))

    if given["calib_search"]:
        from edgedla.accuracy.build_search import searched
        from edgedla.reports.quantization import render_quantized

        def page(result: Quantized) -> str:
            return render_quantized(result, "html")

        with waiting("searching for scales") as work:
            request = click.get_current_context().with_resource(searched(model, request, say, work.show, page))
    if given["plan_only"]:
        plans = plan_stages(model, request, say=say)
        deliver(where, lambda wanted, terminal: render_plans(plans, wanted, terminal))
        return 0
    if given["backend"] == "trtexec":
        scripts = write_scripts(model, out, request, say=say)
        lines = [f"written   {path}" for path in (*scripts.stages, scripts.script)]
        lines += [f"cannot be expressed in this trtexec: {text}" for text in scripts.unsaid]
        echo(json.dumps(scripts.to_dict(), indent=1) if given["output_format"] == "json" else "\n".join(lines))
        return 0
    with waiting("building"):
        artifact = build_artifact(model, out, request, say=say, explain=_explain)
    deliver(where, lambda wanted, terminal: render_build(artifact, wanted, terminal))
    outside = artifact.accuracy is not None and artifact.accuracy["within"] is False
    return 1 if outside and given["fail_on"] == "accuracy" else 0


def _explain(built: BuiltScales) -> Dict[Tuple[str, str], bytes]:
    """The report of measured INT8 scales, as a document and as a page."""
    from edgedla.accuracy.build_report import report_files, report_of_build
    from edgedla.reports.quantization import render_quantized

    report = report_of_build(built)
    return {**report_files(report), ("report", "report.html"): render_quantized(report, "html").encode()}
