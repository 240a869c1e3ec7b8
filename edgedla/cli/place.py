"""`edgedla place MODEL...`: which layers run on the GPU and which on the DLA cores, at the optimum of the predicted cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

import click

from edgedla.cli.arguments.began import spent_s
from edgedla.cli.arguments.models import as_file
from edgedla.cli.arguments.option import option
from edgedla.cli.arguments.place_modes import names_placement, require_made_for, require_meaning
from edgedla.cli.arguments.place_values import chosen_clocks, chosen_devices, latency_bounds, limits_for, numbers
from edgedla.cli.options import (
    TRTEXEC_NOTE_OF_PLACE,
    measured_options,
    network_options,
    output_options,
    platform_flags,
    precision_is_open,
    resolve_models,
    resolve_network,
    shape_options,
    split_trtexec,
)
from edgedla.cli.output import deliver, destinations, say_where
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import UsageError
from edgedla.vocabulary import IN_FLIGHT, OBJECTIVES

if TYPE_CHECKING:
    from edgedla.placement.result.placement import Placement

FORMATS = ("text", "json", "html", "trtexec")
PLATFORM = ("target", "jetpack", "trt")
#: Options that a search and an evaluation have by the same names.
SAME = ("clocks_locked", "profile", "layer_info", "use_unknown", "shapes", "batch", "one_process")


@click.command(epilog=TRTEXEC_NOTE_OF_PLACE)
@click.argument("models", nargs=-1, metavar="MODEL...")
@platform_flags()
@network_options("Always fallback: a placement runs on the GPU what the DLA refuses.")
@shape_options()
@option(
    "--objective",
    type=click.Choice(OBJECTIVES, case_sensitive=False),
    default="latency",
    show_default=True,
    help="latency: of one frame; throughput: of a stream that keeps all devices busy; energy: per frame; gpu-time: of "
    "the GPU per frame, the rest of it is free for other work; makespan: until one frame of every model is done, all side by side.",
)
@option(
    "--max-latency",
    field="latency_bound_us",
    metavar="TIME,...",
    help="Maximum latency of a frame that runs alone: 5000 (us) or 5ms, one for all models, or one per model.",
)
@option(
    "--devices",
    joins=True,
    metavar="A,B",
    help="Devices to use: GPU, DLA0, DLA1.  [default: GPU,DLA0 for latency, energy and gpu-time; else all that the module has]",
)
@option(
    "--layer-device-types",
    "--layerDeviceTypes",
    "pins",
    multiple=True,
    metavar="LAYER:DEVICE,...",
    help="Pin layers to GPU, DLA, DLA0 or DLA1; * in a name matches any text.",
)
@option("--rates", metavar="A,B", help="For throughput of several models: frames of each model per period.")
@option(
    "--fps",
    field="frames_per_second",
    metavar="A,B",
    help="For energy and gpu-time: frames per second of each model. Minimises the power, or how busy the GPU is, at these rates; no "
    "device may fall behind.",
)
@option(
    "--in-flight",
    type=click.Choice(IN_FLIGHT),
    default="many",
    show_default=True,
    help="For throughput: many frames of each model at a time, as in a pipeline, or one, which queues for the GPU each time "
    "that it needs it.",
)
@option("--max-regions", type=click.IntRange(min=0), help="Maximum number of loadables, over all models and cores.")
@option("--min-region", type=click.IntRange(min=1), default=1, instead="predicted times rule out short loadables")
@option("--loadables-per-core", type=click.IntRange(min=1), help="Default: TensorRT's cap on a core, 16 from 8.5 on.")
@option(
    "--power-mode",
    metavar="NAME",
    help="nvpmodel mode of the module (`edgedla targets MODULE` lists them).  [default: this Jetson's; elsewhere MAXN]",
)
@measured_options
@option("--use-unknown", is_flag=True, help="Allow layers with an unknown verdict on the DLA.")
@option(
    "--time-limit",
    field="time_limit_s",
    type=click.FloatRange(min=0.01),
    default=10.0,
    show_default=True,
    help="Seconds of processor time for the whole command; on a busy machine at most 6 times that on the clock. Reading and writing a "
    "model of 1,000 layers takes about 1.5 s. If no time is left to solve, the answer is the best placement that the search "
    "starts from.",
)
@option(
    "--gap",
    type=click.FloatRange(0, 1, max_open=True),
    metavar="SHARE",
    help="End the search within this share of the optimum; 0 for a proof.  [default: 0.001 for throughput, 0.01 for makespan, "
    "else a proof]",
)
@option("--verify", "verified", metavar="FILE", help="Do not solve: check a placement document against the models.")
@option(
    "--evaluate",
    "evaluated",
    field="devices",
    multiple=True,
    metavar="ASSIGNMENT",
    help="Do not solve: predict this assignment. GPU, DLA0, DLA1, tensorrt (TensorRT's default), a placement file, or pins as "
    "in --layerDeviceTypes. Give it once for all models, or once per model, in their order.",
)
@option(
    "--pareto",
    metavar="A,B",
    help="Find the Pareto front of two objectives: latency,energy or latency,throughput. As text, JSON, or HTML with a plot.",
)
@option("--clock", "clocks", multiple=True, metavar="NAME=MHZ", help="Clock of dla, gpu or emc, over the power mode's.")
@option("--borders", metavar="FORMAT", instead="Python has edgedla.predict(borders=...)")
@option(
    "--concurrent/--in-turn",
    default=None,
    help="With --evaluate: run the models side by side (--concurrent), or one after the other.  [default: side by side]",
)
@option(
    "--one-process",
    is_flag=True,
    help="With --evaluate or --in-flight one: the models run in one process, as in `edgedla run`, and their kernels take turns "
    "on the GPU. Without it each model has its own process, as with several trtexec, and whole frames take turns (on Xavier kernels).",
)
@option(
    "--fail-on",
    type=click.Choice(["infeasible", "gpu-only"]),
    default="infeasible",
    show_default=True,
    help="Exit with 1 if no placement keeps the limits (infeasible), or also if no layer is on the DLA (gpu-only).",
)
@output_options(*FORMATS)
@option("--all", "everything", is_flag=True, help="Show every layer and its reason in the text.")
def place(models: Tuple[str, ...], **given: Any) -> int:
    """Place the layers of one or more ONNX models on the GPU and the DLA cores, at the optimum of the predicted cost.

    Needs no Jetson and no NVIDIA software. Exit code 0: a placement was found; 1: none keeps the limits, or --verify found a
    broken constraint; 2: wrong use, for example a pin that breaks a rule; 3: a broken model or placement file.
    """
    from edgedla.cli.arguments.this_board import own_platform, own_power_mode
    from edgedla.targets import platform_for

    require_meaning(click.get_current_context())
    trtexec = split_trtexec(given)
    models = tuple(as_file(m, given["shapes"], given["batch"]) for m in resolve_models(models, trtexec, given))
    named = given["precision"] or any(trtexec[f"trtexec_{flag}"] for flag in ("fp16", "int8", "best"))
    is_open = given["profile"] is None and precision_is_open(given["precision"], trtexec)
    precision, core = _network(given["precision"], given["mode"], trtexec)
    targets = destinations(given["output_format"], given["output"], FORMATS)
    made_for = {name: given[name] for name in PLATFORM}
    asked = {**made_for, "precision": precision if named else None}
    same = {**{name: given[name] for name in SAME}, "clocks": chosen_clocks(given["clocks"])}
    if given["verified"]:
        return _verify(given["verified"], models, given["shapes"], given["batch"], targets, asked)
    if given["evaluated"]:
        if is_open and not names_placement(given["evaluated"]):
            asked["precision"] = platform_for(**own_platform(**made_for)).precision
        same.update({name: given[name] for name in ("power_mode", "borders", "concurrent")})
        return _evaluate(models, given["evaluated"], targets, asked, **same)
    board: Dict[str, Any] = dict(own_platform(**made_for))
    from edgedla.placement.api import place_request
    from edgedla.placement.request import PlacementRequest

    platform = platform_for(**board)
    request = PlacementRequest(
        **board,
        **same,
        precision=platform.precision if is_open else precision,
        objective=given["objective"],
        devices=chosen_devices(given["devices"], core),
        pins=given["pins"],
        limits=limits_for(platform, given["loadables_per_core"], given["max_regions"], given["min_region"], len(models)),
        latency_bound_us=latency_bounds(given["max_latency"]),
        rates=numbers(given["rates"], "--rates", "one number per model: 2,1"),
        frames_per_second=numbers(given["fps"], "--fps", "one number per model: 30,10"),
        in_flight=given["in_flight"],
        power_mode=given["power_mode"] or own_power_mode(board["target"] or ""),
        time_limit_s=given["time_limit"],
        gap=given["gap"],
    )
    if given["pareto"]:
        return _pareto(models, request, given["pareto"], targets)
    with waiting("placing", limit_s=given["time_limit"]):
        result = place_request(models, request, spent_s())
    _show(result, models, targets, given["everything"])
    on_dla = any(m.regions for m in result.models)
    return 1 if given["fail_on"] == "gpu-only" and not on_dla else 0


def _network(precision: Optional[str], mode: Optional[str], trtexec: Mapping[str, Any]) -> Tuple[str, Optional[int]]:
    """(precision, the DLA core or None)."""
    if mode == "strict":
        raise UsageError(
            "a placement always runs on the GPU what the DLA refuses",
            where="--mode",
            allowed="fallback",
            hint="--devices DLA0 places without the GPU, and names a layer that the DLA refuses.",
        )
    precision, mode, core = resolve_network(precision, mode, trtexec)
    # --useDLACore alone means trtexec's strict mode to `check`; a placement with one core is what it means here.
    if mode == "standalone" or trtexec["trtexec_standalone"]:
        raise UsageError("a standalone loadable is one DLA region: there is nothing to place", where="--mode")
    return precision, core


def _show(result: Placement, models: Tuple[str, ...], targets: Sequence[Tuple[str, str]], everything: bool) -> None:
    from edgedla.reports.placement import render_placement
    from edgedla.reports.placement.text import headline

    deliver(targets, lambda wanted, terminal: render_placement(result, wanted, models, terminal, everything))
    say_where(targets, lambda: "\n".join(headline(result)) + "\n")


def _evaluate(
    models: Tuple[str, ...],
    evaluated: Tuple[str, ...],
    targets: Sequence[Tuple[str, str]],
    given: Mapping[str, Any],
    **options: Any,
) -> int:
    """`--evaluate`: one assignment for all models, or one per model. A placement knows what it was made for; all else is
    evaluated for this board, or the default module."""
    if not names_placement(evaluated):
        from edgedla.cli.arguments.this_board import own_platform, own_power_mode

        given = {**given, **own_platform(given["target"], given["jetpack"], given["trt"])}
        options["power_mode"] = options["power_mode"] or own_power_mode(given["target"] or "")
    from edgedla.placement.prediction.predict import predict
    from edgedla.reports.prediction import render_prediction

    devices = evaluated[0] if len(evaluated) == 1 else list(evaluated)
    prediction = predict(list(models), devices=devices, **given, **options)
    deliver(targets, lambda wanted, terminal: render_prediction(prediction, wanted))
    say_where(targets, lambda: render_prediction(prediction, "text"))
    return 1 if prediction.exceeds_module or any(s.broken for s in prediction.streams) else 0


def _pareto(models: Tuple[str, ...], request: Any, objectives: str, targets: Sequence[Tuple[str, str]]) -> int:
    from edgedla.placement.pareto import pareto
    from edgedla.reports.prediction import render_front

    with waiting("placing for every trade between both", limit_s=request.time_limit_s):
        front = pareto(list(models), request, [o.strip() for o in objectives.split(",")], spent_s())
    deliver(targets, lambda wanted, terminal: render_front(front, wanted))
    say_where(targets, lambda: render_front(front, "text"))
    return 0


def _verify(
    path: str,
    models: Tuple[str, ...],
    shapes: Any,
    batch: Optional[int],
    targets: Sequence[Tuple[str, str]],
    given: Mapping[str, Optional[str]],
) -> int:
    from edgedla.io.documents import header
    from edgedla.placement.result.document import read_placement
    from edgedla.placement.verify import verify

    document = read_placement(path)
    require_made_for(document, given)
    broken = verify(document, models, shapes=shapes, batch=batch)

    def render(form: str, terminal: bool) -> str:
        if form == "json":
            result = {"placement": path, "kept": not broken, "broken": [v.to_dict() for v in broken]}
            from edgedla.text.printable import json_text

            return json_text({**header("edgedla.verification"), **result})
        if form != "text":
            raise UsageError(f"--verify has no output form {form!r}", where="--format", allowed="text, json")
        count = f"{len(broken)} broken constraint{'s' * (len(broken) > 1)}" if broken else "every constraint is kept"
        return "\n".join([*(f"{v.rule}: {v.message}" for v in broken), f"{path}: {count}"]) + "\n"

    deliver(targets, render)
    return 1 if broken else 0
