"""`edgedla check MODEL`: which layers run on the DLA, and why not the others."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import click

from edgedla.cli.options import (
    TRTEXEC_NOTE,
    network_options,
    output_options,
    platform_options,
    resolve_models,
    resolve_network,
    shape_options,
    split_trtexec,
)
from edgedla.cli.output import deliver, destinations, echo
from edgedla.errors import ModelError, UsageError

if TYPE_CHECKING:
    from edgedla.regions.report import CheckReport

#: Forms that people read hold the predicted cost without being asked, where it takes a tenth of a second.
COSTED_FORMS, COSTED_LAYERS = ("text", "markdown", "html"), 500
FORMATS = ("text", "json", "markdown", "sarif", "junit", "html")
COMPARE_FORMATS = ("text", "json", "markdown")
FAIL_ON = ("unsupported", "fallback", "unknown", "never")

_RELEASE = re.compile(r"^(?:(?:jp|jetpack)-?(?P<jetpack>\d[\d.]*)|(?:(?:trt|tensorrt)-?)?(?P<trt>\d[\d.]*))$", re.I)


@click.command(epilog=TRTEXEC_NOTE)
@click.argument("models", nargs=-1, metavar="MODEL...")
@platform_options()
@network_options()
@shape_options()
@click.option(
    "--compare",
    metavar="A,B,C",
    help="Compare platforms: modules (orin-nx-16gb), releases (jp6.2, trt8.5.2), or both (xavier-nx-8gb@jp5.1.4).",
)
@output_options(*FORMATS)
@click.option(
    "--cost/--no-cost",
    default=None,
    help="Predict the milliseconds of a frame too.  [default: in forms for people, up to 500 layers]",
)
@click.option(
    "--power-mode", metavar="NAME", help="nvpmodel mode that the cost holds for (`edgedla targets` lists them)."
)
@click.option(
    "--profile",
    metavar="FILE",
    help="Measured times stand for predicted ones: `edgedla bench` or trtexec --exportProfile.",
)
@click.option("--layer-info", metavar="FILE", help="trtexec's --exportLayerInfo: which of them ran on the DLA.")
@click.option(
    "--with-fixes", is_flag=True, help="Also say what `edgedla fix` would make of it (Python 3.10, edgedla[fix])."
)
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="unsupported",
    show_default=True,
    help="Exit with 1 if a layer is refused by the DLA or a strict build fails (unsupported), if anything else ends on "
    "the GPU too (fallback), if there is an unknown verdict too (unknown), or never.",
)
def check(
    models: Tuple[str, ...],
    target: str,
    jetpack: Optional[str],
    trt: Optional[str],
    precision: Optional[str],
    mode: Optional[str],
    shapes: Any,
    batch: Optional[int],
    compare: Optional[str],
    output_format: Optional[str],
    output: Tuple[str, ...],
    cost: Optional[bool],
    power_mode: Optional[str],
    profile: Optional[str],
    layer_info: Optional[str],
    with_fixes: bool,
    fail_on: str,
    **options: Any,
) -> int:
    """Say for every layer of an ONNX model whether it runs on the DLA, and why not.

    Needs no Jetson, no NVIDIA software and no weights. Exit code 0: the answer is yes in the sense of --fail-on;
    1: it is no; 3: the model is broken, or TensorRT's parser refuses it.
    """
    trtexec = split_trtexec(options)
    models = resolve_models(models, trtexec)
    precision, mode, core = resolve_network(precision, mode, trtexec)
    network: Dict[str, Any] = {"precision": precision, "mode": mode, "shapes": shapes, "batch": batch}
    costs = {"power_mode": power_mode, "profile": profile, "layer_info": layer_info}
    if any(costs.values()):
        if compare or cost is False:
            raise UsageError(
                "--power-mode, --profile and --layer-info are about the cost",
                where="--compare" if compare else "--no-cost",
                allowed="a check of one platform, with its cost",
            )
        cost = True
    if compare:
        return _compare(models, compare, target, network, fail_on, output_format, output)
    targets = destinations(output_format, output, FORMATS)
    from edgedla.reports import gate, render_check

    if core is not None:
        _check_core(core, target, jetpack, trt)
    most = {None: COSTED_LAYERS if any(form in COSTED_FORMS for form, _ in targets) else 0, True: None, False: 0}[cost]
    reports: Dict[str, CheckReport] = {}
    broken: List[ModelError] = []
    for model in models:
        try:
            report = _report(model, most, costs, target=target, jetpack=jetpack, trt=trt, **network)
            reports[model] = _with_fixes(report, model, power_mode, shapes, batch) if with_fixes else report
        except ModelError as e:
            broken.append(e)
    # One broken file among several does not hide the answers of the others, but it decides the exit code.
    if not reports:
        raise broken[0]
    found, files = list(reports.values()), list(reports)
    deliver(
        targets,
        lambda wanted, terminal: render_check(found, wanted, files=files, fail_on=fail_on, terminal=terminal),
    )
    for error in broken:
        echo(f"edgedla: error: {error}", err=True)
    if broken:
        return ModelError.exit_code
    return 0 if all(gate.passes(report, fail_on) for report in found) else 1


def _report(
    model: str,
    costed_layers: Optional[int],
    costs: Dict[str, Optional[str]],
    *,
    target: str,
    jetpack: Optional[str],
    trt: Optional[str],
    **network: Any,
) -> CheckReport:
    """The check of one model, with the predicted cost of a frame where it has at most `costed_layers` (None: any).

    Args:
        costs: what the cost holds for: the power mode, and files of measured times.
    """
    from edgedla.graph.open_sizes import TRTEXEC_BATCH
    from edgedla.importers import load_onnx
    from edgedla.regions import check_graph
    from edgedla.targets import platform_for

    platform = platform_for(target, jetpack=jetpack, trt=trt)
    graph = load_onnx(
        model,
        trt=platform.release.trt,
        shapes=network["shapes"],
        batch=network["batch"],
        open_batch=TRTEXEC_BATCH,
        as_trained=True,
    )
    report = check_graph(graph, platform, network["precision"], network["mode"])
    # Dynamic dims have no size, and so no cost; neither has a network that is worked out when it is built.
    static = bool(graph.layers) and not any(
        graph.tensors[t].is_dynamic for layer in graph.layers for t in layer.outputs
    )
    if not static or (costed_layers is not None and len(graph.layers) > costed_layers):
        return report
    from edgedla.placement.prediction.forecast import forecast

    return replace(
        report, cost=tuple(f.to_dict() for f in forecast(graph, platform, network["precision"], None, **costs))
    )


def _with_fixes(report: CheckReport, model: str, power_mode: Optional[str], shapes: Any, batch: Optional[int]) -> Any:
    """The report with what `edgedla fix` would make of the model; nothing is run for it."""
    from edgedla.fixes.fix import fix
    from edgedla.fixes.judge import PURPOSES

    purpose = next(purpose for purpose, mode in PURPOSES.items() if mode == report.mode)
    result = fix(
        model,
        target=report.platform.to_dict()["target"],
        trt=report.platform.to_dict()["trt"],
        precision=report.precision,
        purpose=purpose,
        shapes=shapes,
        batch=batch,
        power_mode=power_mode,
        prove=False,
    )
    return replace(report, with_fixes=result.summary())


def _compare(
    models: Sequence[str],
    labels: str,
    target: str,
    network: Dict[str, Any],
    fail_on: str,
    output_format: Optional[str],
    output: Tuple[str, ...],
) -> int:
    if len(models) != 1:
        raise UsageError(f"{len(models)} models given", where="--compare", allowed="one model, several platforms")
    targets = destinations(output_format, output, COMPARE_FORMATS)
    if output_format and output_format not in COMPARE_FORMATS:
        raise UsageError(f"{output_format} holds no comparison", where="--format", allowed=", ".join(COMPARE_FORMATS))
    from edgedla import regions
    from edgedla.reports import gate
    from edgedla.reports.compare import compare, render_comparison
    from edgedla.targets import platform_for

    names = [label.strip() for label in labels.split(",") if label.strip()]
    platforms = [platform_for(**parse_platform(name, target)) for name in names]
    reports = regions.compare(models[0], platforms, **network)
    comparison = compare(names, reports)
    deliver(targets, lambda wanted, terminal: render_comparison(comparison, wanted, terminal))
    return 0 if all(gate.passes(report, fail_on) for report in reports) else 1


def parse_platform(text: str, default_target: str) -> Dict[str, str]:
    """`module`, `release` or `module@release` as arguments of platform_for; a release is jp6.2, trt10.3 or 10.3."""
    found: Dict[str, str] = {}
    for part in text.split("@"):
        release = _RELEASE.match(part)
        if release is None:
            found.setdefault("target", part)
        elif release["jetpack"]:
            found["jetpack"] = release["jetpack"]
        else:
            found["trt"] = release["trt"]
    found.setdefault("target", default_target)
    return found


def _check_core(core: int, target: str, jetpack: Optional[str], trt: Optional[str]) -> None:
    from edgedla.targets import platform_for

    platform = platform_for(target, jetpack=jetpack, trt=trt)
    cores: List[str] = [str(n) for n in range(platform.module.dla_cores)]
    # A module without DLA gets its own answer instead.
    if platform.has_dla and str(core) not in cores:
        raise UsageError(
            f"{platform.module.title} has no DLA core {core}", where="--useDLACore", allowed=", ".join(cores)
        )
