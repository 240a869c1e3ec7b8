"""`edgedla check MODEL`: which layers run on the DLA, why not the others, and whether it is worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple

import click

from edgedla.cli.arguments.check_request import CheckRequest
from edgedla.cli.arguments.gate import Gate, gate_options
from edgedla.cli.arguments.models import ModelSource, model_sources
from edgedla.cli.arguments.option import option
from edgedla.cli.options import (
    TRTEXEC_NOTE,
    format_options,
    measured_options,
    network_options,
    output_options,
    platform_options,
    precision_is_open,
    resolve_models,
    resolve_network,
    shape_options,
    split_trtexec,
)
from edgedla.cli.output import deliver, destinations, echo, say_where
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import ModelError, ModelTooLarge, UsageError

if TYPE_CHECKING:
    from edgedla.regions.report import CheckReport
    from edgedla.reports.unchecked import Unchecked

FORMATS = ("text", "json", "markdown", "csv", "sarif", "junit", "html")


@click.command(epilog=TRTEXEC_NOTE)
@click.argument("models", nargs=-1, metavar="MODEL...")
@platform_options()
@network_options()
@shape_options()
@format_options()
@option(
    "--compare",
    joins=True,
    metavar="A,B,C",
    help="Compare platforms in a table: modules (orin-nx-16gb), releases (jp6.2, trt8.5.2) or both (xavier-nx-8gb@jp5.1.4). "
    "A precision at the end replaces --precision (orin-nx-16gb@int8).",
)
@output_options(*FORMATS)
@option("--all", "everything", is_flag=True, help="Show every finding and every layer in the text.")
@option("-q", "--quiet", is_flag=True, help="Show one line per model.")
@option(
    "--cost/--no-cost",
    default=None,
    help="Predict time and energy per frame.  [default: in text, markdown, HTML and CSV, for models of up to 3,000 layers]",
)
@option("--power-mode", metavar="NAME", help="nvpmodel mode to predict the cost for (`edgedla targets MODULE` lists them).")
@measured_options
@option("--with-fixes", is_flag=True, help="Also say what `edgedla fix` would change (needs Python 3.10 and edgedla[fix]).")
@option(
    "--on-device",
    metavar="DRIFT.yaml",
    help="On a Jetson: also ask TensorRT about every layer, without building; where it differs from the rules goes into this file.",
)
@gate_options()
def check(models: Tuple[str, ...], **given: Any) -> int:
    """Say which layers of ONNX models run on the DLA, why not the others, and whether the DLA is worth it.

    MODEL is a file, a folder, a quoted pattern, or - to read paths (or one model) from standard input. In a folder,
    artifacts and subfolders whose names begin with a dot are skipped. For a PyTorch module, give the function that
    makes it as package.module:factory, timm:NAME or torchvision:NAME (edgedla[torch]). Several models, or --compare, give a
    table. -o FILE.onnx writes the model with device, reason, loadable and time in the metadata of each node, where Netron
    shows them. Needs no Jetson, no NVIDIA software and no weights.

    Exit code 0: nothing that --fail-on, --baseline or a limit names was found; 1: it was found; 3: a model is broken, or
    TensorRT's parser refuses it and the baseline does not know that. Every output form lists such a model with the reason.
    """
    trtexec = split_trtexec(given)
    models = models or (click.get_current_context().default_map or {}).get("models", ())
    sources = model_sources(resolve_models(models, trtexec, given), given["shapes"], given["batch"])
    both = precision_is_open(given["precision"], trtexec)
    precision, mode, core = resolve_network(given.pop("precision"), given.pop("mode"), trtexec)
    gate = Gate(given)
    given["fail_on"] = gate.fail_on
    request = CheckRequest(given, None if both else precision, mode, core)
    if given["everything"] and given["quiet"]:
        raise UsageError("--all shows everything, --quiet one line per model", where="--all, --quiet", allowed="one of them")
    annotated = None
    if any(path.lower().endswith(".onnx") for path in given["output"]):
        from edgedla.cli.check.annotated import split_annotated, write_annotated

        annotated, given["output"] = split_annotated(given, sources)
    if given["compare"]:
        from edgedla.cli.check.compare import compare

        return compare(sources, given, request)
    targets = destinations(given["output_format"], given["output"], FORMATS)
    if core is not None:
        _check_core(core, given)
    place = {key: given[key] for key in ("target", "jetpack", "trt")}
    reports: Dict[str, CheckReport] = {}
    broken: List[Tuple[str, ModelError]] = []
    # The line of --quiet is the same wherever the report goes.
    most = request.costed_layers([form for form, _ in targets], gate.needs_cost or given["quiet"])
    next_is_shown = _shows_next(targets, given, len(sources))
    with waiting("checking", len(sources)) as work:
        for source in sources:
            try:
                report = request.report(source, place, most, any(form == "html" for form, _ in targets))
                if given["with_fixes"]:
                    report = request.with_fixes(report, source)
                elif next_is_shown:
                    report = request.with_fix_gain(report, source)
                reports[source.file] = report
            except ModelTooLarge as e:
                broken.append((source.file, e))
            except ModelError as e:
                broken.append((source.file, request.refusal(e, source, place) if next_is_shown else e))
            work.done += 1
    # One broken file among several does not hide the answers of the others, but it decides the exit code.
    unchecked = request.unchecked(broken, place)
    code, known = gate.exit_code(reports, unchecked, mode)
    if annotated is not None and reports:
        write_annotated(annotated, sources[0], next(iter(reports.values())), request)
    _show(reports, unchecked, targets, given, gate.broken)
    if given["on_device"]:
        _ask_board(sources, request, place, given["on_device"])
    for line in gate.said:
        echo(f"edgedla: {line}", err=True)
    unknown = [model for model in unchecked if model.file not in known]
    for model in unknown:
        echo(f"edgedla: error: {model.error}", err=True)
    return ModelError.exit_code if unknown else code


def _ask_board(sources: Sequence[ModelSource], request: CheckRequest, place: Dict[str, Any], file: str) -> None:
    """Asks TensorRT on this board about one model, and writes where its answers differ from the rules."""
    from pathlib import Path

    from edgedla.builder.asking import ask_board
    from edgedla.builder.request import BuildRequest
    from edgedla.builder.tensorrt.drift import drift_yaml
    from edgedla.io.files import write_atomic
    from edgedla.targets import platform_for

    if len(sources) != 1 or request.mode != "fallback":
        raise UsageError("it asks about one model with GPU fallback", where="--on-device", allowed="one MODEL")
    named = BuildRequest(
        **place, precision=request.precision_on(platform_for(**place)), shapes=request.shapes, batch=request.batch
    )
    asked = ask_board(sources[0].source, named)
    for line in asked.lines():
        echo(f"edgedla: {line}", err=True)
    write_atomic(Path(file), drift_yaml(asked.plan, asked.drift))


def _shows_next(targets: Sequence[Tuple[str, str]], given: Dict[str, Any], models: int) -> bool:
    """Whether an output form of this call shows the next command to run, or what it gains."""
    forms = {form for form, _ in targets}
    if not given["quiet"] and ("text" not in forms or given["everything"]):
        return "html" in forms
    from edgedla.reports.check.text import SCREENS

    return "html" in forms or models <= SCREENS


def _show(
    reports: Dict[str, CheckReport],
    unchecked: Sequence[Unchecked],
    targets: Sequence[Tuple[str, str]],
    given: Dict[str, Any],
    broken: Sequence[Tuple[str, str, str]],
) -> None:
    from edgedla.reports import render_check

    values, files = list(reports.values()), list(reports)

    def render(form: str, terminal: bool) -> str:
        if form == "csv":
            from edgedla.reports.table import render_table, table_of_reports

            return render_table(table_of_reports(values, files, unchecked), form)
        return render_check(
            values,
            form,
            files=files,
            fail_on=given["fail_on"],
            terminal=terminal,
            everything=given["everything"],
            quiet=given["quiet"],
            unchecked=unchecked,
            broken=broken,
        )

    # stderr has the errors already: a text on the screen with nothing else would repeat them.
    deliver([target for target in targets if reports or target != ("text", "-")], render)
    say_where(targets, lambda: render_check(values, "text", files=files, quiet=True, unchecked=unchecked))


def _check_core(core: int, given: Dict[str, Any]) -> None:
    from edgedla.targets import platform_for

    platform = platform_for(given["target"], jetpack=given["jetpack"], trt=given["trt"])
    cores: List[str] = [str(n) for n in range(platform.module.dla_cores)]
    # For a module without DLA the check itself says so.
    if platform.has_dla and str(core) not in cores:
        raise UsageError(f"{platform.module.title} has no DLA core {core}", where="--useDLACore", allowed=", ".join(cores))
