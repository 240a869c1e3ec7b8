"""A check report as Markdown, for a pull request or a job summary."""

from __future__ import annotations

from typing import Iterator, Sequence

from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.report import CheckReport
from edgedla.reports import gains, layer_groups, summary, words
from edgedla.reports.check.next_command import next_command, nothing_to_do
from edgedla.reports.check.slower import by_fix, slower_changes
from edgedla.reports.check.view import CheckView
from edgedla.reports.layer_groups import Group
from edgedla.reports.markdown import code, escape
from edgedla.reports.unchecked import Unchecked
from edgedla.reports.words import macs_text, percent


def to_markdown(reports: Sequence[CheckReport], view: CheckView) -> str:
    """What a model breaks, the reports in order, each under its own heading, then the models without one."""
    names = {"baseline": "Worse than the baseline"}
    lines = [f"✕ {names.get(name, f'--{name}')}: {escape(text)}\n" for name, _, text in view.broken]
    lines += [line for report, file in zip(reports, view.commands(reports)) for line in _report(report, file)]
    lines += [line for model in view.unchecked for line in _unchecked(model)]
    return "\n".join(lines) + "\n"


def _unchecked(model: Unchecked) -> Iterator[str]:
    yield f"## {escape(model.file)} on {escape(model.place)}\n"
    yield f"**{escape(model.headline)}**\n"
    yield from (f"- {escape(line)}" for line in model.details)
    yield ""


def _report(report: CheckReport, file: str) -> Iterator[str]:
    totals = report.totals
    yield f"## {escape(summary.subject(report))}\n"
    yield f"**{escape(summary.headline(report).text)}**\n"
    if report.platform.has_dla and totals.layers_dla:
        answer = gains.verdict(report)
        yield f"**{escape(answer.word)}**: {escape(answer.text)}\n"
    yield "| | |\n|---|---|"
    if report.platform.has_dla:
        limit = subgraphs_per_core(report.platform)
        yield f"| Loadables | {totals.regions} of at most {limit} on one core, {totals.regions_dropped} dropped |"
        yield f"| Transitions | {escape(gains.transitions_text(report))} |"
    yield f"| Layers | {totals.layers_dla} DLA, {totals.layers_gpu} GPU, {totals.layers_folded} folded |"
    yield f"| Unknown | {layer_groups.unknowns(report)} |"
    yield f"| MACs | {macs_text(totals.macs)}, {percent(totals.share_macs_dla)} on the DLA |"
    yield from (f"| {label[0].upper()}{label[1:]} | {escape(text)} |" for label, text in summary.costs(report))
    yield f"| Basis | rules {escape(report.rules_version)}; a prediction |\n"
    if report.strict is not None:
        yield from (f"- {escape(message)}" for message in report.strict.beside_findings)
        yield from (f"- {escape(f.rule)}: {escape(f.message)}" for f in report.strict.findings)
        if report.strict.offenders:
            yield f"- Offenders: {', '.join(code(name) for name in report.strict.offenders)}"
        yield ""
    if report.ranking:
        yield "### Change these layers first\n"
        yield "| | Layers | Gain | Why | Fix |\n|---|---|---|---|---|"
        for place, change in enumerate(report.ranking, 1):
            gain = escape(words.gains(report, change))
            name = f"{escape(change.label)} ({len(change.layers)})"
            yield f"| {place} | {name} | {gain} | {escape(change.message)} | {escape(words.fix_text(report, change.fixes))} |"
        yield ""
        if by_fix(report):
            yield f"{escape(by_fix(report))}\n"
    if report.slower is not None:
        yield f"{escape(slower_changes(report))}\n"
    for title, _, groups in layer_groups.sections(report):
        yield from _groups(title, groups)
    findings = [(region, finding) for region in report.regions if region.kept for finding in region.findings]
    if findings:
        yield "### Loadables over a limit\n"
        yield from (f"- {code(region.name)}: **{escape(f.rule)}** {escape(f.message)}" for region, f in findings)
        yield ""
    if report.notes:
        yield "### Notes\n"
        yield from (f"- {escape(note)}" for note in report.notes)
        yield ""
    command = next_command(report, file)
    if command is not None:
        yield f"Next: {code(command)}\n"
    elif nothing_to_do(report):
        yield f"Next: {nothing_to_do(report)}\n"


def _groups(title: str, groups: Sequence[Group]) -> Iterator[str]:
    yield f"### {title}\n"
    for group in groups:
        yield f"- **{escape(group.key)}** {escape(group.title)} ({group.size})"
        for entry in group.entries:
            yield f"  - {escape(entry.message)}: {', '.join(code(name) for name in entry.names)}"
    yield ""
