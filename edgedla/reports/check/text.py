"""A check report as text: by default one screen with verdict, worth, changes and refusals; or everything; or one line."""

from __future__ import annotations

from typing import Iterator, List, Optional, Sequence

from edgedla.graph.batch import frame_text
from edgedla.regions.check import unknown_note
from edgedla.regions.prediction import dropped_note
from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import RankedChange
from edgedla.reports import gains, layer_groups, summary, words
from edgedla.reports.check.listing import figures, listing, strict_lines
from edgedla.reports.check.next_command import next_command, nothing_to_do, promise
from edgedla.reports.check.refusals import by_remedy, pulled_along
from edgedla.reports.check.slower import by_fix, nothing_to_change, slower_changes
from edgedla.reports.check.view import CheckView
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.text import Line, aligned, clean, folded, print_lines
from edgedla.reports.unchecked import Unchecked
from edgedla.reports.words import count, percent

#: Layers named per group, and groups on the first screen.
NAMED_LAYERS, GROUPS = 3, 5
#: Rows and columns of one screen.
SCREEN_LINES = 60
COLUMNS = 80
#: More models than this are shown as a table, not as one screen each.
SCREENS = 3
#: The importer may write many notes; the first screen shows this many.
NOTES = 2


def to_text(reports: Sequence[CheckReport], view: CheckView) -> str:
    """The reports in order, after a table if there are several."""
    if view.quiet:
        headlines = [one_line(report) for report in reports]
        headlines += [clean(f"{m.file} on {m.platform.module.id}, {m.precision}: {m.headline}") for m in view.unchecked]
        return "".join(f"{line}\n" for line in headlines)
    lines: List[Line] = []
    models = len(reports) + len(view.unchecked)
    if models > 1:
        from edgedla.reports.table import table_of_reports
        from edgedla.reports.table.text import table_lines

        # First: who compares models looks for the one table.
        lines += table_lines(table_of_reports(reports, unchecked=view.unchecked))
    if view.everything or models <= SCREENS:
        for report, file in zip(reports, view.commands(reports)):
            if lines:
                lines += [("", 0, ""), ("dim", 0, "-" * 80), ("", 0, "")]
            if view.everything:
                lines += listing(report)
            else:
                lines += _one_screen(report, file)
        for model in view.unchecked:
            if lines:
                lines += [("", 0, ""), ("dim", 0, "-" * 80), ("", 0, "")]
            lines += [part for line in _unchecked(model) for part in folded(line)]
    return print_lines(lines, view.terminal)


def _unchecked(model: Unchecked) -> Iterator[Line]:
    yield "title", 0, clean(f"{model.file} on {model.place}")
    yield "bad", 0, clean(model.headline)
    yield from (("", 2, clean(line)) for line in model.details)


def one_line(report: CheckReport) -> str:
    """Model, module, verdict, the time if known, and what `edgedla fix` gains if that is the next command."""
    said = gains.headline_of(report)
    worth = ""
    if said is not None and said.axes:
        time = said.axes[0]
        worth = f"; {said.line[:-1]}; {milliseconds(time.value)} per {gains.frame_word(report)}"
        worth += f", {milliseconds(time.base)} on the GPU alone"
    elif report.closing:
        worth = "; only because sizes are open: fix them with --shapes"
    if said is not None and report.fix_gain is not None and (next_command(report, "") or "").startswith("edgedla fix "):
        worth += f"; {by_fix(report, above=False)[:-1]}"
    return clean(f"{report.model} on {report.platform.module.id}, {report.precision}: {summary.headline(report).text}{worth}")


def _one_screen(report: CheckReport, file: str) -> List[Line]:
    """The summary with as many groups of refusals as fit on one screen."""
    for groups in range(GROUPS, 0, -1):
        lines = [part for line in screen(report, file, groups) for part in ([line] if line[0] == "command" else folded(line))]
        # A command stays on one line, so that it can be copied; the terminal wraps it.
        if sum(max(1, -(-(line[1] + len(line[2])) // COLUMNS)) for line in lines) <= SCREEN_LINES:
            break
    return lines


def screen(report: CheckReport, file: str, most_groups: int = GROUPS) -> Iterator[Line]:
    """The summary, with at most so many groups of refusals."""
    head = summary.headline(report)
    yield "title", 0, clean(summary.subject(report))
    yield head.tone, 0, clean(head.text)
    answer = gains.verdict(report)
    if report.platform.has_dla:
        yield _TONES.get(answer.tone, ""), 0, clean(f"{answer.word.upper()}: {answer.text}")
    yield from (("", 0, clean(line)) for line in gains.other_headlines(report))
    yield "", 0, ""
    yield from figures(report)
    if report.strict is not None:
        yield from strict_lines(report, NAMED_LAYERS)
    yield from _worth(report)
    if report.platform.has_dla:
        yield from _changes(report)
        yield from (("", indent, clean(line)) for indent, line in summary.with_fixes(report))
        yield from _refusals(report, most_groups)
    yield from _notes(report)
    command = next_command(report, file)
    if command is not None:
        said = promise(report, command)
        yield from (("", 0, ""), ("title", 0, f"Next{f': {said}' if said else ''}"), ("command", 2, command))
    elif nothing_to_do(report):
        yield from (("", 0, ""), ("title", 0, "Next"), ("", 2, nothing_to_do(report)))


_TONES = {"good": "good", "equal": "mixed", "bad": "bad", "plain": "dim", "unknown": "unknown"}


def _worth(report: CheckReport) -> Iterator[Line]:
    yield from (("", 0, ""), ("title", 0, "Is it worth it?"))
    priced = gains.worth_of(report)
    if priced is None:
        yield "", 2, gains.why_not_costed(report)
        return
    bases = {way.cost.basis for way in priced.ways if way.precision == priced.precision}
    mode = f", {priced.mode_text}" if priced.mode_text else ""
    own = "your model on the " if priced.baseline() else ""
    against = f"per frame, against {own}GPU alone in {report.precision.upper()}{mode}"
    yield "dim", 2, f"{against}; {', '.join(sorted(bases))} costs, ± one standard deviation"
    if priced.batch > 1:
        yield "", 2, frame_text(priced.batch)
    rows = gains.axis_rows(report)
    if not rows and priced.way("gpu") is not None:
        gpu = priced.ways[0]
        yield (
            "",
            2,
            f"on the GPU {milliseconds(gpu.cost.latency_us)} ±{gpu.cost.spread * 100:.0f} %, {significant(gpu.cost.energy_mj)} mJ",
        )
    cells = [(_MARKS[row.axis.state], row.name, row.value, row.base, row.said, row.doubt) for row in rows]
    for row, line in zip(rows, aligned(cells)):
        yield _TONES.get(row.tone, ""), 2, line
    placed = priced.way("tensorrt")
    if placed is not None and placed.parts.loadables:
        yield "dim", 2, f"of {milliseconds(placed.cost.latency_us)} {gains.parts_text(placed.parts)}"
    yield from (("", 2, sentence) for sentence in gains.beside(report))


#: State of an axis -> its mark, so that no answer is told by colour alone.
_MARKS = {"gains": "+", "loses": "-", "may gain": "?", "may lose": "?", "equal": "=", "unknown": "?"}


def _changes(report: CheckReport) -> Iterator[Line]:
    refused = any(layer.cause.is_root and str(layer.placed) == "gpu" for layer in report.layers)
    fixed = by_fix(report)
    if not report.ranking:
        if refused or fixed:
            yield from (("", 0, ""), ("title", 0, "Change these layers first"))
            yield "", 2, nothing_to_change(report)
            if report.slower is not None:
                yield "dim", 2, slower_changes(report)
        return
    yield from (("", 0, ""), ("title", 0, "Change these layers first (each on top of those above)"))
    for place, change in enumerate(report.ranking, 1):
        alone = "" if change.helps_alone or place == 1 else "; not by itself"
        yield "", 2, f"{place}. {words.fix_text(report, change.fixes)}: {count(len(change.layers), 'layer')}{alone}"
        last = place == len(report.ranking) > 1
        yield ("title" if last else "dim"), 5, f"{'together: ' if last else ''}{after(report, change)}"
    if fixed:
        yield "", 2, fixed
    if report.slower is not None:
        yield "dim", 2, slower_changes(report)


def after(report: CheckReport, change: RankedChange) -> str:
    """The model after a change: `142 of 142 layers, 100 % of MACs, 3 loadables, 0.965 ms per frame`."""
    parts = [f"{change.layers_dla_after} of {change.layers_after} layers"]
    if change.macs_after:
        parts.append(f"{percent(change.macs_dla_after / change.macs_after)} of MACs")
    over = change.regions_after - change.kept_after
    parts.append(count(change.kept_after, "loadable") + (f" ({over} over the limit)" if over else ""))
    if change.latency_us is not None:
        parts.append(f"{milliseconds(change.latency_us)} per frame")
    return ", ".join(parts)


def _refusals(report: CheckReport, most: int) -> Iterator[Line]:
    groups, pulled = by_remedy(report), pulled_along(report)
    nodes = layer_groups.unknown_nodes(report)
    if not groups and not pulled and not nodes:
        return
    yield from (("", 0, ""), ("title", 0, "Not on the DLA, by remedy"))
    ranked = {fix for change in report.ranking for fix in change.fixes}
    for group in groups[:most]:
        word = "unknown" if group.tone == "unknown" else "refused"
        title = group.remedy if group.remedy in ranked else words.fix_text(report, (group.remedy,)) or group.title
        rules = f", {', '.join(group.rules[:3])}" if group.rules else ""
        text = f"{title} ({count(len(group.layers), 'layer')} {word}{rules}): {clean(group.message)}"
        yield group.tone, 2, text
        yield "dim", 4, named(group.layers)
    if len(groups) > most:
        rest = sum(len(g.layers) for g in groups[most:])
        yield "dim", 2, f"{count(len(groups) - most, 'more group')} with {count(rest, 'layer')} (--all)"
    if nodes:
        yield "unknown", 2, f"{count(len(nodes), 'ONNX node')} whose layers are not known: {clean(nodes[0].reason)}"
    for knocked in pulled:
        yield "mixed", 2, f"{count(len(knocked.layers), 'layer')} more: {knocked.text}"


def named(layers: Sequence[LayerReport], most: Optional[int] = NAMED_LAYERS) -> str:
    """The first layers, and how many more there are."""
    shown = ", ".join(clean(words.place_of(layer)) for layer in layers[:most])
    return shown + (f" and {len(layers) - most} more" if most is not None and len(layers) > most else "")


def _notes(report: CheckReport) -> Iterator[Line]:
    totals = report.totals
    # The answer and the figures above say these.
    shown = (
        dropped_note(totals.regions + totals.regions_dropped, totals.regions, totals.regions_dropped),
        unknown_note(totals.layers_unknown),
        report.platform.no_dla,
    )
    notes = [note for note in report.notes if note not in shown]
    if not notes:
        return
    yield from (("", 0, ""), ("title", 0, "Notes"))
    yield from (("", 2, clean(note)) for note in notes[:NOTES])
    if len(notes) > NOTES:
        yield "dim", 2, f"and {len(notes) - NOTES} more (--all)"
