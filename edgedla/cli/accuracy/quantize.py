"""`edgedla quantize MODEL --data SAMPLES -o OUT`: INT8 scales for the DLA, their error, and its repair. Simulated."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import click

from edgedla.cli.accuracy.metric_options import chosen_metric, classes_option, metric_options
from edgedla.cli.arguments.models import as_file
from edgedla.cli.arguments.option import DROP, given_options, option
from edgedla.cli.arguments.preprocess import preprocess_options, preprocess_settings
from edgedla.cli.options import memory_option, platform_options, shape_options
from edgedla.cli.output import deliver, echo, say
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import NOT_SHOWN_CODE, UsageError
from edgedla.vocabulary import CALIBRATION_METHODS, LEAST_CHANNEL_DB, QDQ_FORMS

#: Parameters that have a meaning without samples.
_TRANSLATES = ("model", "out", "calib", "target", "jetpack", "trt", "max_memory", "qdq_form")


@click.command()
@click.argument("model", metavar="MODEL")
@option("-o", "--output", "out", metavar="FOLDER", help="Folder of the cache, layer precisions and report.")
@option(
    "--data",
    metavar="PATH",
    help="Calibration samples, 64 or more: a folder of pictures, a video, a .npz or .npy, a folder of them, or a set "
    "with labels (COCO, YOLO, Pascal VOC).",
)
@option(
    "--holdout",
    metavar="PATH",
    help="Samples to measure errors on. Of 32 or more, the first half decides on repairs, the second judges the result.  [default: "
    "the last fifth of --data, which is not used for calibration]",
)
@classes_option()
@preprocess_options()
@platform_options()
@shape_options()
@option(
    "--method", default="auto", show_default=True, metavar="METHOD", help=f"{', '.join(CALIBRATION_METHODS)}, or percentile:99.9."
)
@option("--calib", metavar="FILE", help="Start from the scales of this calibration cache: measure their error and repair them.")
@metric_options(None)
@option(
    "--min-sqnr",
    field="min_sqnr_db",
    type=float,
    metavar="DB",
    help="Repair until the outputs have this SQNR on held-out samples.",
)
@option(
    "--min-channel-sqnr",
    field="min_channel_sqnr_db",
    type=float,
    default=LEAST_CHANNEL_DB,
    show_default=True,
    metavar="DB",
    help="Least SQNR of every group of channels at the outputs. Layers stay in FP16 where a shared scale would round such a group "
    "away; where that does not help, exit with 1.",
)
@option(
    "--force",
    is_flag=True,
    help="Take scales with dead channels all the same; report and artifact say so. Without it `build` refuses them.",
)
@option("--max-drop", type=DROP, metavar="X", help="Repair until --metric falls by at most X: 1% or 0.01.")
@option("--bias-correction", is_flag=True, help="Correct biases for the mean rounding error of INT8.")
@option("--equalize", is_flag=True, help="Even out the ranges of channels where that helps (cross-layer equalisation).")
@option(
    "--repair-fp16",
    is_flag=True,
    help="Rescale tensors beyond FP16's range by powers of two, folded into weights. Where no weights can take the "
    "factor, keep the tensors on the GPU.",
)
@option("--everywhere", is_flag=True, help="Simulate every layer in INT8 on the DLA, even one that a build would put on the GPU.")
@option(
    "--qdq-form",
    type=click.Choice(QDQ_FORMS),
    default="int8",
    show_default=True,
    help="From TensorRT 11 on, which takes Q/DQ in place of a cache: int8 (FLOAT scales), int8-fp16 (a FLOAT16 model with FLOAT16 "
    "scales) or uint8 (zero point 128). The DLA may compute any of them in FP16.",
)
@option("--quick", is_flag=True, help="Calibrate by --method and measure once: no search, no repair.")
@memory_option()
@option("--report", "report", is_flag=True, help="Also write the report as a page: FOLDER/report.html.")
@option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@option(
    "--fail-on",
    type=click.Choice(["goal", "never"]),
    default="goal",
    show_default=True,
    help="Exit with 1 where --min-sqnr or --max-drop is not met, with 7 where the samples cannot show that it is.",
)
def quantize(model: str, out: Optional[str], data: Optional[str], holdout: Optional[str], **given: Any) -> int:
    """INT8 scales for the DLA: measured on your samples, explained, and repaired where you ask.

    Writes the calibration cache for TensorRT, the layers that stay in FP16 as --layerPrecisions, and the report. For
    TensorRT 11 it writes the model with Q/DQ nodes. A model with Q/DQ nodes needs no samples: it becomes plain ONNX with a
    cache. Errors are simulated with ONNX Runtime.
    """
    from edgedla.accuracy.quantize import quantize as run
    from edgedla.accuracy.request import QuantizeRequest
    from edgedla.accuracy.result import require_no_foreign_model
    from edgedla.io.files import usable_folder
    from edgedla.quantization.calibration_cache import read_cache
    from edgedla.reports.quantization import render_quantized

    if given["report"] and out is None:
        raise UsageError("the report needs a folder to be written to", where="--report", hint="-o FOLDER")
    if out is not None and data is not None:
        # Checked before minutes of measuring, although a result that leaves the model as it is writes no model.
        require_no_foreign_model(usable_folder(out))
    model = as_file(model, given["shapes"], given["batch"])
    cache = read_cache(given["calib"]) if given["calib"] else None
    absmax = None if cache is None else dict(cache.absmax)
    if data is None:
        return _translate(model, out, absmax, given)
    named = {
        "min_sqnr_db": given["min_sqnr"],
        "min_channel_sqnr_db": given["min_channel_sqnr"],
        "metric": chosen_metric(given, lambda: _network(model, given)),
        "preprocess": preprocess_settings(given),
    }
    same = {f.name: given[f.name] for f in fields(QuantizeRequest) if f.name in given}
    request = QuantizeRequest(**{**same, **named})
    with waiting("quantizing") as work:
        result = run(model, data, request, holdout=holdout, absmax=absmax, say=say, progress=work.show)
    if cache is not None:
        result = replace(result, notes=(*cache.notes, *result.notes))
    if out is not None:
        more = {"report.html": render_quantized(result, "html")} if given["report"] else {}
        for path in result.save(out, more):
            say(f"written {path}")
    deliver([(given["output_format"], "-")], lambda wanted, terminal: render_quantized(result, wanted, terminal))
    if given["fail_on"] == "never":
        return 0
    if result.dead and not result.forced:
        return 1
    if result.met is not False:
        return 0
    return NOT_SHOWN_CODE if result.not_shown else 1


def _network(model: str, given: Dict[str, Any]) -> Tuple[Sequence[str], Sequence[int]]:
    """(names of the outputs, shape of the first input)."""
    from edgedla.graph.open_sizes import TRTEXEC_BATCH
    from edgedla.importers import load_onnx
    from edgedla.targets import platform_for

    platform = platform_for(given["target"], jetpack=given["jetpack"], trt=given["trt"])
    graph = load_onnx(model, trt=platform.release.trt, shapes=given["shapes"], batch=given["batch"], open_batch=TRTEXEC_BATCH)
    return graph.outputs, graph.tensors[graph.inputs[0]].dims


def _translate(model: str, out: Optional[str], absmax: Optional[Mapping[str, float]], given: Dict[str, Any]) -> int:
    """Without samples: turns Q/DQ into a cache, or a cache into Q/DQ, whichever the release takes."""
    from edgedla.accuracy.plain.float32_model import turned
    from edgedla.accuracy.translate import translate
    from edgedla.builder.onnx_input import read_model
    from edgedla.targets import platform_for

    if out is None:
        raise UsageError(
            "no samples to measure scales on",
            where="--data",
            hint="Add --data SAMPLES. A model with Q/DQ nodes holds its scales: for it -o FOLDER is enough.",
        )
    needless = [shown for name, shown in given_options(click.get_current_context()).items() if name not in _TRANSLATES]
    if needless:
        raise UsageError(
            "means nothing without --data: the scales are translated, and nothing is measured",
            where=", ".join(needless),
            allowed="-o, --calib, --target, --jetpack, --trt",
        )
    platform = platform_for(given["target"], jetpack=given["jetpack"], trt=given["trt"])
    given_model = read_model(model)
    wide = turned(given_model)
    result = translate(given_model if wide is None else wide.model, platform, absmax, given["qdq_form"])
    for path in result.save(out):
        say(f"written {path}")
    what = "plain ONNX with a calibration cache" if result.form == "cache" else "ONNX with Q/DQ"
    lines = [f"form      {what}, for TensorRT {platform.release.trt_text}"]
    if result.absmax:
        lines.append(f"scales    {len(result.absmax)} tensors")
    if result.fp16_layers:
        lines.append(f"fp16      --layerPrecisions={result.precisions}")
    notes = result.notes
    if wide is not None:
        notes = (f"{wide.own.turned}; not proven: no samples", *wide.interface, *notes)
    lines += [f"note      {note}" for note in notes]
    echo("\n".join(lines))
    return 0
