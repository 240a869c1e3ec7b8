"""A whole check report as text: figures, changes, every finding with all its layers, the loadables."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.float16_model import AS_FP16
from edgedla.regions.report import CheckReport
from edgedla.reports import gains, layer_groups, summary, words
from edgedla.reports.check.slower import by_fix, slower_changes
from edgedla.reports.layer_groups import Group
from edgedla.reports.text import Line, clean
from edgedla.reports.words import count, macs_text, percent


def listing(report: CheckReport) -> Iterator[Line]:
    """The whole report, line by line."""
    head = summary.headline(report)
    yield "title", 0, clean(summary.subject(report))
    yield head.tone, 0, clean(head.text)
    said = gains.headline_of(report)
    if report.platform.has_dla and said is not None:
        yield said.tone, 0, clean(said.line)
    yield "", 0, ""
    yield from figures(report)
    yield from (("", 2, f"{label:13}{text}") for label, text in summary.costs(report))
    if report.strict is not None:
        yield from strict_lines(report)
    if report.ranking:
        yield from (("", 0, ""), ("title", 0, "Change these layers first"))
        yield from _ranking(report)
        yield from (("dim", 2, line) for line in filter(None, [by_fix(report)]))
    if report.slower is not None:
        yield "dim", 2, slower_changes(report)
    yield from (("", indent, clean(line)) for indent, line in summary.with_fixes(report))
    if report.platform.has_dla:
        for title, tone, groups in layer_groups.sections(report):
            yield from _groups(report, title, tone, groups)
        yield from _regions(report)
    if report.notes:
        yield from (("", 0, ""), ("title", 0, "Notes"))
        yield from (("", 2, clean(note)) for note in report.notes)


def figures(report: CheckReport) -> Iterator[Line]:
    """What the check counted, and what it rests on."""
    totals = report.totals
    layers = f"{totals.layers_dla} DLA, {totals.layers_gpu} GPU, {totals.layers_folded} folded"
    if report.platform.has_dla:
        unknown = layer_groups.unknowns(report)
        yield "", 2, f"layers       {layers}; unknown: {unknown}{', counted on the GPU' if unknown else ''}"
    if report.as_it_is is not None and report.platform.has_dla:
        live = report.as_it_is.layers_dla + report.as_it_is.layers_gpu
        as_it_is = f"{report.as_it_is.layers_dla} of {live} layers on the DLA, the GPU in FP32"
        yield "", 2, f"types        {AS_FP16}; the file as it is: {as_it_is}"
    if totals.macs:
        yield "", 2, f"MACs         {macs_text(totals.macs)}, {percent(totals.share_macs_dla)} on the DLA"
    if report.platform.has_dla:
        limit = subgraphs_per_core(report.platform)
        dropped = f"; {totals.regions_dropped} more dropped by that limit" if totals.regions_dropped else ""
        yield "", 2, f"loadables    {totals.regions} of at most {limit} on one core{dropped}"
        yield "", 2, f"transitions  {gains.transitions_text(report)}"
    basis = f"predicted, no board: rules {report.rules_version}, parser of TensorRT {report.parser}"
    yield "dim", 2, f"basis        {basis}"


def strict_lines(report: CheckReport, most: Optional[int] = None) -> Iterator[Line]:
    """Whether a mode without fallback succeeds, and why not. `most`: messages and offenders shown, and one finding a rule; None: all."""
    assert report.strict is not None
    strict = report.strict
    yield "", 0, ""
    yield summary.strict_answer(report)
    messages, offenders = strict.beside_findings, strict.offenders
    yield from (("", 2, clean(message)) for message in messages[:most])
    if most is not None and len(messages) > most:
        yield "dim", 2, f"and {len(messages) - most} more (--all)"
    by_rule = [[f for f in strict.findings if f.rule == rule] for rule in dict.fromkeys(f.rule for f in strict.findings)]
    for finding, *others in by_rule if most is not None else [[f] for f in strict.findings]:
        alike = f" (and {len(others)} more like it)" if others else ""
        yield "", 2, f"{finding.rule} {finding.rule_name}: {clean(finding.message)}{alike}"
    if offenders:
        more = "" if most is None or len(offenders) <= most else f" and {len(offenders) - most} more"
        yield "", 2, f"{count(len(offenders), 'offender')}: {', '.join(clean(o) for o in offenders[:most])}{more}"


def _ranking(report: CheckReport) -> Iterator[Line]:
    for place, change in enumerate(report.ranking, 1):
        size = count(len(change.layers), "layer")
        yield "", 2, f"{place}. {words.fix_text(report, change.fixes)} ({size}): {words.gains(report, change)}"
        yield "dim", 5, f"{clean(report.layers[change.layers[0]].name)}: {clean(change.message)}"
        yield "dim", 5, f"by {clean(change.label)}"


def _groups(report: CheckReport, title: str, style: str, groups: Sequence[Group]) -> Iterator[Line]:
    yield from (("", 0, ""), (style, 0, title))
    for group in groups:
        yield "title", 2, f"{group.key}  {group.title} ({group.size})"
        for entry in group.entries:
            yield "", 4, clean(entry.message)
            if entry.fixes:
                yield "dim", 6, f"fix: {words.fix_text(report, entry.fixes)}"
            yield from (("dim", 6, clean(name)) for name in entry.names)


def _regions(report: CheckReport) -> Iterator[Line]:
    if not report.regions:
        return
    yield from (("", 0, ""), ("title", 0, "Loadables"))
    for region in report.regions:
        state = "" if region.kept else "  dropped: runs on the GPU"
        counted = f"{count(len(region.layers), 'layer')}, {macs_text(region.macs)} MACs, batch {region.batch}"
        yield "", 2, f"{region.id}: {clean(region.name)}  {counted}{state}"
        yield from (("mixed", 5, clean(f"{f.rule} {f.message}")) for f in region.findings)
        for cut in region.cuts:
            # Layers on the GPU are listed above with their reasons; the other cuts appear only here.
            if cut.kind in ("gpu_layer", "validation"):
                continue
            yield "dim", 5, clean(cut.message)
