"""`edgedla run`: runs a camera pipeline from a file, or an artifact on a source."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.arguments.preprocess import preprocess_options
from edgedla.cli.board_option import BoardCommand
from edgedla.cli.options import memory_option
from edgedla.cli.output import deliver, destinations, echo
from edgedla.cli.running.source_option import source_options, sources_of
from edgedla.errors import DocumentError, UsageError

if TYPE_CHECKING:
    from edgedla.runtime.pipeline.settings import PipelineConfig

FORMATS = ("text", "json")


@click.command(cls=BoardCommand)
@click.argument("pipeline", metavar="PIPELINE.yaml|ARTIFACT|ENGINE")
@source_options()
@option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEVICE",
    help="GPU, DLA0 or DLA1; several devices share the frames. GPU=ARTIFACT runs another artifact on that device. A chain has "
    "its own devices.",
)
@option("--placement", metavar="FILE", help="Run on the core, or the chain of cores, that `edgedla place -o FILE` chose.")
@option("--preprocess", type=click.Choice(("auto", "cpu", "cuda")), help="Device that preprocesses frames.  [default: auto]")
@preprocess_options(file=False)
@option(
    "--decode",
    metavar="NAME",
    help="classification, segmentation, instances, pose, ssd, yolov5, yolov8, yolo11, centernet, depth, final (boxes after "
    "NMS), none, or module:function of your own.",
)
@option("--labels", metavar="A,B,C", help="Class names, or a file with one per line. Default: those in the model's metadata.")
@option("--score", type=click.FloatRange(0, 1), help="Drop detections below this score.")
@option("--reg-max", type=click.IntRange(1, 256), help="Bins per side of a YOLOv8 box (reg_max).  [default: 16]")
@option("--frames", type=click.IntRange(min=0), help="Stop after this many frames.")
@option("--seconds", type=click.FloatRange(0, 1e9), help="Stop after this many seconds.")
@option("--jsonl", metavar="FILE", help="Write results as JSON lines.")
@option("--images", metavar="FOLDER", help="Write annotated frames into this folder.")
@option("--video", metavar="FILE", help="Write an annotated video (.mp4, .avi).")
@option("--metrics", metavar="FILE", help="Write the pipeline's metrics as JSON lines.")
@option("--prometheus", type=click.IntRange(0, 65535), metavar="PORT", help="Serve the pipeline's metrics for Prometheus.")
@option("--view", metavar="[HOST:]PORT", help="Serve a live page with frames and metrics.  [default HOST: 127.0.0.1]")
@option(
    "--view-name",
    "view_names",
    multiple=True,
    metavar="NAME",
    help="Host name by which browsers may ask for the page and scrapers for metrics, besides addresses and localhost.",
)
@memory_option()
@option("--format", "output_format", type=click.Choice(FORMATS), help="Form of the summary.  [default: text]")
@option("-o", "--output", "output", multiple=True, metavar="FILE", help="Write the summary to FILE.")
def run(
    pipeline: str,
    sources: Tuple[str, ...],
    source_file: Optional[str],
    devices: Tuple[str, ...],
    placement: Optional[str],
    preprocess: Optional[str],
    mean: Any,
    std: Any,
    fit: Optional[str],
    colour: Optional[str],
    decode: Optional[str],
    labels: Optional[str],
    score: Optional[float],
    reg_max: Optional[int],
    frames: Optional[int],
    seconds: Optional[float],
    jsonl: Optional[str],
    images: Optional[str],
    video: Optional[str],
    metrics: Optional[str],
    prometheus: Optional[int],
    view: Optional[str],
    view_names: Tuple[str, ...],
    output_format: Optional[str],
    output: Tuple[str, ...],
) -> None:
    """Run a pipeline until its source ends, a limit is reached, or Ctrl-C (SIGTERM) asks it to stop.

    ENGINE is the file of a TensorRT engine, on the Jetson that built it. An Ultralytics engine's metadata gives the
    decoder, the class names and --fit, unless options say otherwise.

    At its end the pipeline finishes the frames under way, then prints a summary. A second Ctrl-C ends it at once. Exit
    code 6 if a stage failed, or if frames under way did not finish.
    """
    targets = destinations(output_format, output, FORMATS)
    # Before the pipeline runs there is nothing to finish. KeyboardInterrupt during a C extension's import would look
    # like a missing library, so Ctrl-C ends the process at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.signal(number, lambda *_: os._exit(130))
        click.get_current_context().call_on_close(functools.partial(signal.signal, number, before))
    from edgedla.builder.artifact.load import artifact_hint
    from edgedla.records.plan_header import is_engine
    from edgedla.runtime.pipeline.reading import read_labels

    is_file = pipeline.lower().endswith((".yaml", ".yml"))
    if is_file and hasattr(signal, "SIGHUP"):
        # It asks to read the file again; before that is possible, and in the last moments, it must not end the process.
        signal.signal(signal.SIGHUP, lambda *_: None)
    if not os.path.exists(pipeline):
        raise DocumentError("no such file or folder", where=pipeline)
    if not is_file and not os.path.isdir(pipeline) and not is_engine(Path(pipeline)):
        raise DocumentError(
            "neither a pipeline file, nor an artifact's folder, nor a TensorRT engine",
            where=pipeline,
            allowed="*.yaml, a folder that `edgedla build` made, or an engine's file",
            hint=artifact_hint(Path(pipeline)),
        )
    given = {
        "artifact": "" if is_file else pipeline,
        "sources": sources_of(sources, source_file, lambda line: echo(f"edgedla: {line}", err=True)),
        "preprocess": {"device": preprocess, "mean": mean, "std": std, "fit": fit, "colour": colour},
        "decode": {"kind": decode, "labels": read_labels(labels or ""), "score": score, "reg_max": reg_max},
        "outputs": {"jsonl": jsonl, "images": images, "video": video},
        "metrics": {"jsonl": metrics, "prometheus_port": prometheus, "names": view_names or None},
        "stop_after": {"frames": frames, "seconds": seconds},
        "view": {**_view(view), "names": view_names or None},
    }
    read = functools.partial(_read, pipeline if is_file else "", devices, placement or "", given)
    reports = [path for _, path in targets if path != "-"]
    if reports:
        _require_apart(read(), reports)
    summary = _run(read, pipeline if is_file else "", os.path.basename(os.path.abspath(pipeline)))
    deliver(targets, lambda wanted, _: json.dumps(summary, indent=1) + "\n" if wanted == "json" else _text(summary))


def _require_apart(config: PipelineConfig, reports: Sequence[str]) -> None:
    """Raises UsageError if the summary would overwrite an output of the pipeline."""
    from edgedla.runtime.pipeline.open_outputs import FILES, written_by

    written = written_by(config)
    for report in reports:
        for name in FILES:
            if any(path and os.path.realpath(path) == os.path.realpath(report) for path in written[name]):
                raise UsageError(f"{name} writes to the same file", where=f"-o {report}", hint="give the summary another file")


def _read(file: str, devices: Tuple[str, ...], placement: str, given: Mapping[str, Any]) -> PipelineConfig:
    """The pipeline file as it is now, with the command line's options over it."""
    from edgedla.runtime.pipeline.config import load_config, with_overrides

    config = with_overrides(load_config(file) if file else None, **given)
    if devices and placement:
        raise UsageError("--device and --placement both say where the model runs", allowed="one of them")
    if devices and config.models:
        raise UsageError(
            "--device is for one model, and the file has several", where=file, hint="models.NAME.devices in the file"
        )
    return dataclasses.replace(config, devices=devices, placement=placement) if devices or placement else config


def _run(read: Callable[[], PipelineConfig], file: str, title: str) -> Dict[str, Any]:
    """Runs to the end; a changed file, or SIGHUP, replaces models meanwhile."""
    from edgedla.cli.terminal.live_line import live_line
    from edgedla.processes.malloc import collect_often, limit_arenas
    from edgedla.runtime.health.service import as_service
    from edgedla.runtime.pipeline.open_pipeline import end_on_signals, opened_parts, watched
    from edgedla.runtime.pipeline.reload import Reloader, reloading

    config = read()
    limit_arenas()
    with opened_parts(config) as parts, contextlib.ExitStack() as stack:
        opened = parts.pipeline
        if file:
            reloader = stack.enter_context(reloading(Reloader(parts, read, (file,))))
            if hasattr(signal, "SIGHUP"):
                signal.signal(signal.SIGHUP, lambda *_: reloader.ask())
        # SIGHUP means a closed terminal; a run of a pipeline file reads the file again.
        end_on_signals(opened, "SIGINT", "SIGTERM", *(() if file else ("SIGHUP",)))
        page = stack.enter_context(watched(opened, config, title))
        stack.enter_context(as_service(opened))
        if page:
            echo(f"live page: {page}", err=True)
        stack.enter_context(live_line(opened.summary))
        collect_often()
        return opened.run()


def _view(text: Optional[str]) -> Dict[str, Any]:
    """--view as settings: "8080", "0.0.0.0:8080", "[::1]:8080"."""
    if text is None:
        return {}
    host, colon, port = text.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) <= 65535 or (colon and not host):
        raise UsageError(f"{text!r}", where="--view", allowed="PORT or HOST:PORT, port 1 to 65535")
    return {"port": int(port), "address": host.strip("[]") or None}


def _text(s: Dict[str, Any]) -> str:
    from edgedla.reports.stages import stage_lines

    f = s["frames"]
    lines = [
        f"{f['results']} results in {s['seconds']} s, {s['throughput_fps']} per second"
        + (" (SIMULATED runner: not a Jetson's speed)" if s["simulated"] else ""),
        f"frames  captured {f['captured']}  "
        + (f"skipped by max_rate {f['skipped']}  " if f["skipped"] else "")
        + f"dropped for newer ones {f['dropped']}  reconnects {f['reconnects']}  stalls {f['stalls']}",
        *_outages(f),
        f"{'stage':<12}{'p50 ms':>10}{'p90 ms':>10}{'p99 ms':>10}{'max ms':>10}",
    ]
    for name, stage in s["stages"].items():
        cells = "".join(f"{_cell(stage[k]):>10}" for k in ("p50_ms", "p90_ms", "p99_ms", "max_ms"))
        lines.append(f"{name:<12}{cells}")
    if len(s["sources"]) > 1 or len(s["models"]) > 1:
        lines += _streams(s)
    for model in s["models"]:
        # A reload opens new runners, and these count from there on.
        since = "" if not model["swaps"] else f" since {' '.join(filter(None, ('model', model['model'])))} was replaced"
        for r in model["runners"]:
            state = "" if r["in_use"] else "  TAKEN OUT after failures"
            lines.append(f"runner {r['runner']}: {r['inference']['count']} inferences{since}{state}")
            lines += [f"  {line}" for line in stage_lines(r["stages"])]
    return "\n".join(lines) + "\n"


def _outages(f: Dict[str, Any]) -> List[str]:
    from edgedla.runtime.outage import length

    return [f"outages {f['outages']}, {length(f['outage_s'])} without frames"] if f["outages"] else []


def _streams(s: Dict[str, Any]) -> List[str]:
    """A line per source of each model, and one per source that did not reach its end."""
    lines = []
    for model in s["models"]:
        for source, v in model["sources"].items():
            lines.append(
                f"{model['model'] or 'model'} of {source}: {v['results']} results, {v['dropped']} dropped, "
                f"age p50 {_cell(v['age']['p50_ms'])} ms  p99 {_cell(v['age']['p99_ms'])} ms"
            )
    lines += [f"source {c['name']}: {c['state'].upper()}" for c in s["sources"] if c["state"] in ("opening", "failed")]
    return lines


def _cell(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.2f}"
