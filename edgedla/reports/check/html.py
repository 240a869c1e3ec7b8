"""A check report as one HTML page: verdict and worth first, then what to change, the graph, every finding, the basis."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Sequence, Tuple

from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.report import CheckReport
from edgedla.reports import gains, layer_groups, summary, words
from edgedla.reports.check.findings import OPEN, findings_of
from edgedla.reports.check.next_command import next_command, nothing_to_do, promise
from edgedla.reports.check.ribbon import MOST_CELLS, STYLE_WORDS, common_prefix, reason_of, ribbon, style_of
from edgedla.reports.check.slower import by_fix, nothing_to_change, slower_changes
from edgedla.reports.check.view import CheckView
from edgedla.reports.page.figures import Fact, Figure
from edgedla.reports.page.numbers import MINUS, megabytes, milliseconds, signed_count, significant
from edgedla.reports.page.render import render_page
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.words import count, macs_text, percent
from edgedla.rules.remedies import remedies


def to_html(reports: Sequence[CheckReport], view: CheckView) -> str:
    """All reports on one page; several start with a table that links to each. Names from the model are escaped."""
    from edgedla.reports.table.html import verdicts
    from edgedla.reports.table.table import table_of_reports

    files = view.commands(reports)
    models = len(reports) + len(view.unchecked)
    several = models != 1 or bool(view.unchecked)
    sections = [page_values(r, f, f"m{n}-" if several else "") for n, (r, f) in enumerate(zip(reports, files), 1)]
    title = f"{count(models, 'model')} checked for the DLA" if several else summary.subject(reports[0])
    table = table_of_reports(reports, unchecked=view.unchecked) if several else None
    return render_page(
        "check.html.j2",
        command="check",
        title=title,
        reports=sections,
        single=not several,
        models=models,
        unchecked=view.unchecked,
        table=table,
        verdicts=verdicts(table) if table is not None else (),
        style_words=STYLE_WORDS,
    )


def page_values(report: CheckReport, file: str, prefix: str = "") -> Dict[str, Any]:
    """The values that the template shows of one report. `prefix` makes ids unique if a page has several reports."""
    frames = ribbon(report)
    return {
        "report": report,
        "prefix": prefix,
        "about": summary.subject(report).partition(" on ")[2],
        "verdicts": (Verdict(*summary.verdict(report), summary.sentence(report)), gains.verdict(report)),
        "figures": _figures(report),
        "worth": gains.worth_of(report),
        "not_costed": gains.why_not_costed(report) if report.worth is None else "",
        "against": _against(report),
        "axes": gains.axis_rows(report),
        "split": _split(report),
        "beside": list(gains.beside(report)),
        "promise": promise(report, next_command(report, file)),
        "nothing": nothing_to_do(report),
        "steps": [_step(report, n) for n in range(len(report.ranking))],
        "no_step": nothing_to_change(report) if report.totals.layers_gpu or by_fix(report) else "Nothing to change.",
        "fixed": by_fix(report) if report.ranking else "",
        "slower": slower_changes(report),
        "command": next_command(report, file),
        "frames": frames,
        "cells": len(report.layers) <= MOST_CELLS,
        "name_prefix": common_prefix([layer.name for layer in report.layers]),
        "rows": [(layer, style_of(layer), reason_of(layer), words.place_of(layer)) for layer in report.layers],
        "findings": findings_of(report),
        "fixes": partial(words.fix_text, report),
        "open": OPEN,
        "nodes": layer_groups.unknown_nodes(report),
        "facts": _facts(report),
    }


def _figures(report: CheckReport) -> List[Figure]:
    if not report.platform.has_dla:
        return []
    totals = report.totals
    live = totals.layers_dla + totals.layers_gpu
    limit = subgraphs_per_core(report.platform)
    folded = f", {totals.layers_folded} folded" if totals.layers_folded else ""
    dropped = f"{totals.regions_dropped} more dropped by the limit" if totals.regions_dropped else "of one core"
    size = sum(t.size_bytes for t in report.transitions)
    each = f", {megabytes(size / len(report.transitions))} each on average" if report.transitions else ""
    crossing, _, unit = megabytes(size).partition(" ")
    return [
        Figure(
            "Layers on the DLA",
            str(totals.layers_dla),
            f"of {live}",
            f"{totals.layers_gpu} on the GPU{folded}",
            totals.share_layers_dla,
        ),
        Figure(
            "MACs on the DLA",
            percent(totals.share_macs_dla).replace(" %", "") if totals.macs else "0",
            "%" if totals.macs else "MACs",
            f"{macs_text(totals.macs_dla)} of {macs_text(totals.macs)}",
            totals.share_macs_dla if totals.macs else -1.0,
        ),
        Figure(
            "Loadables",
            str(totals.regions),
            f"of {limit}",
            dropped,
            pips=(totals.regions, max(limit - totals.regions, 0), totals.regions_dropped),
        ),
        Figure("Transitions", str(totals.transitions), "per frame", gains.transitions_text(report).partition(") ")[2]),
        Figure("Data crossing", crossing, unit, f"per frame{each}", wide=True),
    ]


def _against(report: CheckReport) -> str:
    """What the answers compare, and how their bars are drawn."""
    priced = gains.worth_of(report)
    if priced is None:
        return ""
    whose = "your own model" if priced.baseline() else "the model"
    batch = f" A frame is a batch of {priced.batch}." if priced.batch > 1 else ""
    mode = f", {priced.mode_text}" if priced.mode_text else ""
    return (
        f"With the DLA against {whose} on the GPU alone, {report.precision.upper()}{mode}. To the left the DLA saves, to the right it "
        f"costs; the whisker is ± one standard deviation of the ratio.{batch}"
    )


def _split(report: CheckReport) -> List[Tuple[str, str, str, float]]:
    """(kind, what, time, share) of the time as TensorRT places the model."""
    way = gains.way(report, "tensorrt")
    if way is None or not way.cost.latency_us or not way.parts.dla_us:
        return []
    parts, totals = way.parts, report.totals
    rows = (
        ("gpu", f"{totals.layers_gpu} layers on the GPU", parts.gpu_us),
        ("dla", f"{totals.layers_dla} layers on the DLA", parts.dla_us),
        (
            "move",
            f"{count(len(parts.loadables), 'start')}, {count(parts.crossings, 'tensor')} moved, inputs and outputs too",
            parts.moving_us,
        ),
    )
    return [(kind, text, milliseconds(us), us / way.cost.latency_us) for kind, text, us in rows if us > 0]


def _step(report: CheckReport, n: int) -> Dict[str, Any]:
    """One row of the changes: the model after this change and those above it."""
    change = report.ranking[n]
    before_macs = report.totals.share_macs_dla if n == 0 else _share(report, n - 1)
    way = gains.way(report, "tensorrt")
    before_us = way.cost.latency_us if way is not None and n == 0 else report.ranking[n - 1].latency_us if n else None
    over = change.regions_after - change.kept_after
    points = (_share(report, n) - before_macs) * 100
    after_us = change.latency_us
    gained = None if after_us is None or before_us is None else after_us - before_us
    return {
        "change": change,
        "title": words.fix_text(report, change.fixes),
        "texts": [remedies()[fix].text for fix in change.fixes if fix in remedies()],
        "layers": f"{change.layers_dla_after} of {change.layers_after}",
        "layers_gain": signed_count(change.layers_gained) if change.layers_gained else "no change",
        "macs": percent(_share(report, n)),
        "macs_gain": f"{'+' if points > 0 else MINUS}{significant(abs(points))} points" if abs(points) >= 0.05 else "no change",
        "loadables": f"{change.kept_after}, {over} over" if over else str(change.kept_after),
        "loadables_gain": signed_count(-change.regions_merged) if change.regions_merged else "no change",
        "time": None if after_us is None else milliseconds(after_us),
        "time_gain": "" if gained is None else f"{'+' if gained > 0 else MINUS}{milliseconds(abs(gained))}",
        "faster": gained is not None and gained < 0,
    }


def _share(report: CheckReport, n: int) -> float:
    change = report.ranking[n]
    return change.macs_dla_after / change.macs_after if change.macs_after else 0.0


def _facts(report: CheckReport) -> List[Fact]:
    facts = [Fact("Placement", f"by rules {report.rules_version}; no board took part", "predicted")]
    priced = gains.worth_of(report)
    if priced is not None and priced.ways:
        way = priced.ways[0]
        facts.append(Fact("Times", f"± {percent(way.cost.spread)} (one standard deviation), {priced.power_mode}", way.cost.basis))
        facts.append(Fact("Energy", f"± {percent(way.cost.energy_spread)}, above the board's idle power", way.cost.basis))
        facts += [Fact("Clocks", note) for note in priced.notes]
    facts.append(Fact("Parser", f"TensorRT {report.parser}"))
    facts += [Fact("Note", note) for note in report.notes]
    facts.append(Fact("Model", f"SHA-256 {report.sha256}" if report.sha256 else "from memory", code=bool(report.sha256)))
    return facts
