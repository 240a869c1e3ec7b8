"""`edgedla check MODEL`: which layers run on the DLA, why not the others, and whether it is worth it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

import click

from edgedla.cli.arguments.models import ModelSource, model_sources
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
from edgedla.cli.output import deliver, destinations, echo, say_where
from edgedla.errors import DataError, ModelError, ModelTooLarge, UsageError

if TYPE_CHECKING:
    from edgedla.regions.report import CheckReport
    from edgedla.reports.table import Table
    from edgedla.targets import Platform

#: Forms that people read hold the predicted cost without being asked.
COSTED_FORMS = ("text", "markdown", "html", "csv")
FORMATS = ("text", "json", "markdown", "csv", "sarif", "junit", "html")
TABLE_FORMATS = ("text", "json", "markdown", "csv", "html")
FAIL_ON = ("unsupported", "fallback", "unknown", "never")


@click.command(epilog=TRTEXEC_NOTE)
@click.argument("models", nargs=-1, metavar="MODEL...")
@platform_options()
@network_options()
@shape_options()
@click.option(
    "--compare",
    metavar="A,B,C",
    help="Compare platforms: modules (orin-nx-16gb), releases (jp6.2, trt8.5.2), both (xavier-nx-8gb@jp5.1.4), with a "
    "precision where it differs (orin-nx-16gb@int8). With several models it is a table.",
)
@output_options(*FORMATS)
@click.option("--all", "everything", is_flag=True, help="Text with every finding and every layer.")
@click.option("-q", "--quiet", is_flag=True, help="Text with one line per model.")
@click.option(
    "--cost/--no-cost",
    default=None,
    help="Predict time and energy per frame.  [default: in forms for people, up to 500 layers]",
)
@click.option("--power-mode", metavar="NAME", help="nvpmodel mode that the cost holds for (`edgedla targets MODULE`).")
@click.option(
    "--profile",
    metavar="FILE",
    help="Measured times replace predictions: `edgedla bench` or trtexec --exportProfile.",
)
@click.option(
    "--layer-info", metavar="FILE", help="trtexec's --exportLayerInfo: says which layers of the profile ran on the DLA."
)
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
def check(models: Tuple[str, ...], **given: Any) -> int:
    """Say which layers of ONNX models run on the DLA, why not the others, and whether the DLA is worth it.

    MODEL is a file, a folder, a quoted pattern, or - for paths (or one model) on standard input. A PyTorch module is
    named by the function that makes it, as package.module:factory (edgedla[torch]). Several models, or --compare, end
    in a table. Needs no Jetson, no NVIDIA software and no weights.

    Exit code 0: the answer is yes in the sense of --fail-on; 1: it is no; 3: a model is broken, or TensorRT's parser
    refuses it.
    """
    trtexec = split_trtexec(given)
    sources = model_sources(resolve_models(models, trtexec), given["shapes"], given["batch"])
    precision, mode, core = resolve_network(given.pop("precision"), given.pop("mode"), trtexec)
    request = _Request(given, precision, mode)
    if given["compare"]:
        return _compare(sources, given, request)
    targets = destinations(given["output_format"], given["output"], FORMATS)
    if core is not None:
        _check_core(core, given)
    reports: Dict[str, CheckReport] = {}
    broken: List[DataError] = []
    most = request.costed_layers([form for form, _ in targets])
    next_is_shown = _shows_next(targets, given, len(sources))
    for source in sources:
        try:
            place = {key: given[key] for key in ("target", "jetpack", "trt")}
            report = request.report(source, place, most, any(form == "html" for form, _ in targets))
            if given["with_fixes"]:
                report = request.with_fixes(report, source)
            elif next_is_shown:
                report = request.with_fix_gain(report, source)
            reports[source.file] = report
        except ModelTooLarge as e:
            broken.append(e)
        except ModelError as e:
            broken.append(request.refusal(e, source, place) if next_is_shown else e)
    # One broken file among several does not hide the answers of the others, but it decides the exit code.
    if not reports:
        raise broken[0]
    _show(reports, targets, given)
    for error in broken:
        echo(f"edgedla: error: {error}", err=True)
    if broken:
        return ModelError.exit_code
    from edgedla.reports import gate

    return 0 if all(gate.passes(report, given["fail_on"]) for report in reports.values()) else 1


def _shows_next(targets: Sequence[Tuple[str, str]], given: Dict[str, Any], models: int) -> bool:
    """Whether some form names the command to run next."""
    from edgedla.reports.check.text import SCREENS

    screens = models <= SCREENS and not (given["everything"] or given["quiet"])
    return any(form == "html" or (form == "text" and screens) for form, _ in targets)


def _show(reports: Dict[str, CheckReport], targets: Sequence[Tuple[str, str]], given: Dict[str, Any]) -> None:
    from edgedla.reports import render_check

    values, files = list(reports.values()), list(reports)

    def render(wanted: str, terminal: bool) -> str:
        if wanted == "csv":
            from edgedla.reports.table import render_table, table_of_reports

            return render_table(table_of_reports(values, files), wanted)
        return render_check(
            values,
            wanted,
            files=files,
            fail_on=given["fail_on"],
            terminal=terminal,
            everything=given["everything"],
            quiet=given["quiet"],
        )

    deliver(targets, render)
    say_where(targets, lambda: render_check(values, "text", files=files, quiet=True))


class _Request:
    """What is asked of every model: network, costs, shapes."""

    def __init__(self, given: Dict[str, Any], precision: str, mode: str) -> None:
        self.precision, self.mode = precision, mode
        self.shapes, self.batch, self.cost = given["shapes"], given["batch"], given["cost"]
        self.costs = {key: given[key] for key in ("power_mode", "profile", "layer_info")}
        if any(self.costs.values()):
            measured = given["profile"] or given["layer_info"]
            if self.cost is False or (given["compare"] and measured):
                raise UsageError(
                    "--power-mode, --profile and --layer-info are about the cost",
                    where="--compare" if given["compare"] else "--no-cost",
                    allowed="a check of one platform, with its cost",
                )
            self.cost = True

    def costed_layers(self, forms: Sequence[str]) -> Optional[int]:
        """Up to so many layers a report has its cost; None for any number."""
        from edgedla.reports.worth import COSTED_LAYERS

        if self.cost is None:
            return COSTED_LAYERS if any(form in COSTED_FORMS for form in forms) else 0
        return None if self.cost else 0

    def report(
        self, source: ModelSource, place: Dict[str, Any], most: Optional[int], every_change: bool = False
    ) -> CheckReport:
        """The check of one model on one platform, with its cost where it has at most `most` layers."""
        from edgedla.graph.open_sizes import TRTEXEC_BATCH, GivenSizes
        from edgedla.importers import load_onnx
        from edgedla.regions import check_graph
        from edgedla.targets import platform_for

        precision = place.pop("precision", None) or self.precision
        platform = platform_for(**place)
        graph = load_onnx(
            source.source,
            trt=platform.release.trt,
            shapes=self.shapes,
            batch=self.batch,
            open_batch=TRTEXEC_BATCH,
            as_trained=True,
        )
        report = check_graph(graph, platform, precision, self.mode)
        report = replace(report, sizes=GivenSizes(self.shapes, self.batch))
        if most is not None and len(graph.layers) > most:
            return report
        from edgedla.cli.arguments.this_board import own_power_mode
        from edgedla.placement.check_cost import with_cost
        from edgedla.placement.worth import CostOptions

        power_mode = self.costs["power_mode"] or own_power_mode(platform.module.id)
        return with_cost(report, graph, CostOptions(**{**self.costs, "power_mode": power_mode}), every_change)

    def with_fixes(self, report: CheckReport, source: ModelSource) -> CheckReport:
        """The report with what `edgedla fix` would make of the model; nothing is run for it."""
        from edgedla.fixes.fix import fix
        from edgedla.fixes.judge import pays
        from edgedla.regions.values import FixGain

        purpose = _purpose(report.mode)
        result = fix(
            source.source,
            target=report.platform.module.id,
            trt=report.platform.release.trt_text,
            precision=report.precision,
            purpose=purpose,
            prove=False,
            **self._sizes_and_power(report.platform),
        )
        gain = FixGain(pays(result.before, result.after, purpose), result.after.latency_us)
        return replace(report, with_fixes=result.summary(), fix_gain=gain)

    def with_fix_gain(self, report: CheckReport, source: ModelSource) -> CheckReport:
        """The report with whether `edgedla fix` pays, where the command to run next rests on it."""
        from edgedla.reports.worth import asks_for_fix

        if not asks_for_fix(report):
            return report
        from edgedla.cli.arguments.fix_gain import gain_of

        platform, purpose = report.platform, _purpose(report.mode)
        gain = gain_of(source, platform, purpose, precision=report.precision, **self._sizes_and_power(platform))
        return replace(report, fix_gain=gain)

    def refusal(self, error: ModelError, source: ModelSource, place: Mapping[str, Any]) -> ModelError:
        """The refusal of a model, with the command that makes it one that TensorRT's parser takes, where there is one."""
        from edgedla.cli.arguments.fix_gain import with_hint
        from edgedla.targets import platform_for

        platform = platform_for(**place)
        purpose, precision = _purpose(self.mode), self.precision
        return with_hint(error, source, platform, purpose, precision=precision, **self._sizes_and_power(platform))

    def _sizes_and_power(self, platform: Platform) -> Dict[str, Any]:
        from edgedla.cli.arguments.this_board import own_power_mode

        power_mode = self.costs["power_mode"] or own_power_mode(platform.module.id)
        return {"shapes": self.shapes, "batch": self.batch, "power_mode": power_mode}


def _purpose(mode: str) -> str:
    """What `edgedla fix` calls the way to build."""
    from edgedla.fixes.judge import PURPOSES

    return next(purpose for purpose, checked in PURPOSES.items() if checked == mode)


def _compare(sources: Sequence[ModelSource], given: Dict[str, Any], request: _Request) -> int:
    wanted = given["output_format"]
    if wanted and wanted not in TABLE_FORMATS:
        raise UsageError(f"{wanted} holds no comparison", where="--format", allowed=", ".join(TABLE_FORMATS))
    targets = destinations(wanted, given["output"], TABLE_FORMATS)
    from edgedla.cli.arguments.platforms import parse_platforms
    from edgedla.reports import gate
    from edgedla.reports.table import render_table

    places = parse_platforms(given["compare"], given["target"], given["jetpack"], given["trt"])
    most = request.costed_layers([form for form, _ in targets])
    table = _table(sources, places, request, most)
    deliver(targets, lambda form, terminal: render_table(table, form, terminal))
    rows, columns = len(table.rows), len(table.columns)
    models, platforms = "model" if rows == 1 else "models", "platform" if columns == 1 else "platforms"
    say_where(targets, lambda: f"{rows} {models} on {columns} {platforms}\n")
    reports = [cell.report for _, _, cell in table.cells()]
    if any(all(cell.report is None for cell in row.cells) for row in table.rows):
        return ModelError.exit_code
    passed = all(report is not None and gate.passes(report, given["fail_on"]) for report in reports)
    return 0 if passed or given["fail_on"] == "never" else 1


def _table(
    sources: Sequence[ModelSource], places: Dict[str, Dict[str, Any]], request: _Request, most: Optional[int]
) -> Table:
    """Every model on every platform. A platform whose parser refuses the model is a cell, not the end."""
    from edgedla.reports.table.table import Cell, Row, Table, column_at, distinct
    from edgedla.targets import platform_for

    columns = []
    for label, place in places.items():
        where = {key: value for key, value in place.items() if key != "precision"}
        columns.append(column_at(platform_for(**where), place.get("precision") or request.precision, label))
    rows, names = [], []
    for source in sources:
        cells, name = [], source.file
        for place in places.values():
            try:
                report = request.report(source, dict(place), most)
                cells.append(Cell(report))
                name = report.model
            except ModelError as e:
                cells.append(Cell(None, e.what))
        rows.append((source.file, tuple(cells)))
        names.append(name)
    files = [file for file, _ in rows]
    unique = distinct(names, files)
    return Table(tuple(columns), tuple(Row(name, file, cells) for name, (file, cells) in zip(unique, rows)))


def _check_core(core: int, given: Dict[str, Any]) -> None:
    from edgedla.targets import platform_for

    platform = platform_for(given["target"], jetpack=given["jetpack"], trt=given["trt"])
    cores: List[str] = [str(n) for n in range(platform.module.dla_cores)]
    # A module without DLA gets its own answer instead.
    if platform.has_dla and str(core) not in cores:
        raise UsageError(
            f"{platform.module.title} has no DLA core {core}", where="--useDLACore", allowed=", ".join(cores)
        )
