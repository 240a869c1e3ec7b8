"""`edgedla bench ARTIFACT`: latency and throughput of a built network, in trtexec's spelling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.board_option import BoardCommand
from edgedla.cli.options import memory_option, shape_options
from edgedla.cli.output import deliver, destinations, echo, require_apart
from edgedla.errors import UsageError

FORMATS = ("text", "json")


@click.command(cls=BoardCommand)
@click.argument("artifact", required=False)
@option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEVICE",
    help="GPU, DLA0 or DLA1; DEVICE=ARTIFACT measures another artifact there. May be given several times.",
)
@option("--warmUp", "--warm-up", "warm_up", type=float, default=200.0, show_default=True, help="Warm-up in milliseconds.")
@option("--duration", type=float, default=3.0, show_default=True, help="Minimum duration of the measurement in seconds.")
@option("--iterations", type=int, default=10, show_default=True, help="Fewest inferences.")
@option("--percentile", joins=True, default="50,90,95,99", show_default=True, help="Percentiles of the latency to report.")
@option("--streams", "--infStreams", type=click.IntRange(1, 16), default=1, show_default=True, help="Inferences at once.")
@option("--exportTimes", "--export-times", "export_times", metavar="FILE", help="Write every latency to FILE (JSON).")
@option(
    "--exportProfile",
    "--export-profile",
    "export_profile",
    metavar="FILE",
    help="After the measurement, run again with TensorRT's profiler and write every layer's time to FILE (JSON).",
)
@option(
    "--exportLayerInfo",
    "--export-layer-info",
    "export_layer_info",
    metavar="FILE",
    help="Write the artifact's layers to FILE (JSON), as TensorRT's engine inspector lists them.",
)
@option(
    "--onnx",
    metavar="MODEL",
    help="The model that the artifact was built from. --export-profile then writes times by layer signature, which --profile "
    "of `edgedla place` takes for this and other models.",
)
@shape_options()
@option("--power-mode", metavar="NAME", help="With --onnx: nvpmodel mode of the board, if edgedla cannot read it there.")
@option(
    "--sweep-pools",
    "sweep",
    metavar="MODEL",
    help="On the board: build the artifact again from MODEL, its ONNX file, with other sizes of the DLA's memory pools, and time each.",
)
@memory_option()
@option("--loadEngine", "trtexec_engine", hidden=True)
@option("--useDLACore", "trtexec_core", hidden=True, type=int)
@option("--format", "output_format", type=click.Choice(FORMATS), help="Form of the output.  [default: text]")
@option("-o", "--output", "output", multiple=True, metavar="FILE", help="Write to FILE.")
def bench(
    artifact: Optional[str],
    devices: Tuple[str, ...],
    warm_up: float,
    duration: float,
    iterations: int,
    percentile: str,
    streams: int,
    export_times: Optional[str],
    export_profile: Optional[str],
    export_layer_info: Optional[str],
    onnx: Optional[str],
    shapes: Any,
    batch: Optional[int],
    power_mode: Optional[str],
    sweep: Optional[str],
    trtexec_engine: Optional[str],
    trtexec_core: Optional[int],
    output_format: Optional[str],
    output: Tuple[str, ...],
) -> int:
    """Measure latency and throughput of an artifact.

    ARTIFACT is a folder that `edgedla build` made or, on the Jetson that built it, the file of a TensorRT engine, also with
    Ultralytics' metadata. A chain is measured frame by frame, stage by stage, and with a frame in every stage.

    A host artifact runs in ONNX Runtime: its times are marked as simulated and say nothing about a Jetson.

    --export-profile writes each layer's time in trtexec's form or, with --onnx, by layer signature, which --profile of
    `edgedla place` and `check` takes. It needs an artifact built with TensorRT in hybrid mode, or a chain of them.
    """
    targets = destinations(output_format, output, FORMATS)
    exports = {"--exportTimes": export_times, "--exportProfile": export_profile, "--exportLayerInfo": export_layer_info}
    for name, file in exports.items():
        require_apart(name, *([file] if file else []))
    folder = artifact or trtexec_engine
    if not folder or (artifact and trtexec_engine):
        raise UsageError("no artifact given", allowed="ARTIFACT, or trtexec's --loadEngine=FILE")
    if trtexec_core is not None:
        devices = (*devices, f"DLA{trtexec_core}")
    from edgedla.builder.artifact.artifact import BARE_ENGINE
    from edgedla.io.files import write_atomic
    from edgedla.runtime.measure.bench import bench_request
    from edgedla.runtime.measure.request import BenchRequest
    from edgedla.runtime.measure.timing import BenchOptions
    from edgedla.runtime.runners.engine_file import open_built

    if sweep is not None and (devices or onnx or any(exports.values())):
        raise UsageError(
            "devices are not chosen and layers not timed in a sweep",
            where="--sweep-pools",
            allowed="without --device, --onnx and exports",
        )
    timing = BenchOptions(warm_up, iterations, duration, _percentiles(percentile), streams)
    request = BenchRequest(devices, timing, export_profile is not None, onnx, shapes, batch, power_mode)
    loaded = open_built(folder, model=onnx or sweep)
    if loaded.kind == BARE_ENGINE:
        for note in loaded.notes:
            echo(f"edgedla: {note}", err=True)
    if export_layer_info:
        from edgedla.runtime.measure.layer_profile import layer_info

        write_atomic(export_layer_info, layer_info(loaded))
    if sweep is not None:
        from edgedla.runtime.measure.pool_sweep import check_sweepable, sweep_pools

        check_sweepable(loaded)
    report = bench_request(loaded, request)
    document = report.to_dict()
    if sweep is not None and not report.interrupted:
        document.update(sweep_pools(report, Path(sweep), request, lambda line: echo(f"edgedla: {line}", err=True)))
    if export_profile is not None and report.layers is not None:
        report.write_profile(export_profile)
        document["profile"] = {"file": export_profile, **(document["profile"] or {})}
    if export_times:
        write_atomic(export_times, json.dumps(report.to_dict(times=True), indent=1) + "\n")
    deliver(targets, lambda wanted, _: json.dumps(document, indent=1) + "\n" if wanted == "json" else _text(document))
    return 130 if document.get("interrupted") else 0


def _percentiles(text: str) -> Tuple[float, ...]:
    try:
        return tuple(float(p) for p in text.split(","))
    except ValueError:
        raise UsageError(f"{text!r}", where="--percentile", allowed="numbers separated by commas") from None


def _text(document: Dict[str, Any]) -> str:
    from edgedla.reports.stages import stage_lines

    d = document
    precision = f"precision {d['precision']}" if d["precision"] == "unknown" else d["precision"]
    lines: List[str] = [f"{d['model'].get('name')} for {d['target']}, {precision}, {d['backend']} backend"]
    for r in d["results"]:
        pipelined = r["pipelined"]
        lines += _result(r, ", one frame at a time" if pipelined else "")
        lines += [f"  {line}" for line in stage_lines(r["stages"])]
        if pipelined:
            lines += _result(pipelined, f", {pipelined['in_flight']} frames in flight")
        if r["simulated"]:
            lines.append("  SIMULATED: ONNX Runtime on this machine, not a Jetson")
    if d["profile"]:
        lines.append(_profile(d["profile"]))
    if "pools" in d:
        lines += _pools(d["pools"])
    if "note" in d:
        lines.append(f"note: {d['note']}")
    if d.get("interrupted"):
        lines.append("interrupted by Ctrl-C: these are the measurements until then")
    return "\n".join(lines) + "\n"


def _profile(p: Dict[str, Any]) -> str:
    line = f"{p['file']}: times of {p['engine_layers']} engine layers over {p['inferences']} inferences"
    if "measurements" in p:
        line += f", assigned to {p['measurements']} operators ({p['target']} {p['power_mode']}), {p['unresolved']} without one"
    return line


def _pools(p: Dict[str, Any]) -> List[str]:
    lines = [f"pools, median and interquartile range; as planned {p['planned_ms']} ms, noise {p['noise_ms']} ms"]
    for t in p["trials"]:
        outcome = f"refused: {t['refused']}" if "refused" in t else f"{t['median_ms']} ms  {t['spread_ms']} ms"
        lines.append(f"  {t['pool']:<13} {t['size_bytes'] / 1024:>8g} KiB  {outcome}")
    return [*lines, f"  best  {p['best'] or 'the planned sizes: none is faster by more than the noise'}"]


def _result(r: Dict[str, Any], how: str) -> List[str]:
    tail = "  ".join(f"{k} {v} ms" for k, v in r["percentiles_ms"].items())
    return [
        f"{r['runner']}{how}: {r['throughput_qps']} inferences/s over {r['count']} in {r['seconds']} s",
        f"  latency  mean {r['mean_ms']} ms  min {r['min_ms']} ms  {tail}  max {r['max_ms']} ms",
    ]
