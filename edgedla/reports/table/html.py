"""The buyer's table as one HTML page: the buyer's two questions answered, then models by platforms."""

from __future__ import annotations

from typing import Dict, List

from edgedla.reports.page.numbers import significant
from edgedla.reports.page.render import render_page
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.table.differences import ends, of_one_model
from edgedla.reports.table.table import Table
from edgedla.reports.unchecked import DOES_NOT_BUILD, NOT_READ
from edgedla.reports.words import count

#: Unreadable models named at the top; the table lists all.
NAMED = 3


def to_html(table: Table, terminal: bool) -> str:
    models, platforms = count(len(table.rows), "model"), count(len(table.columns), "platform")
    columns = table.columns
    return render_page(
        "table.html.j2",
        command="check --compare",
        title=f"{models} on {platforms}: verdict, time and worst cause",
        name=f"{models} on {platforms}",
        about=", ".join(dict.fromkeys(c.precision.upper() for c in columns)),
        verdicts=_verdicts(table),
        table=Table(columns, table.by_ratio()),
        sorted_by=columns[0].title if columns else "",
        spreads=_spreads(table),
        frames=table.frames(),
        differences=of_one_model(table),
        ends=ends,
    )


def _verdicts(table: Table) -> List[Verdict]:
    return [_fastest(table), _verdict_counts(table)]


def _fastest(table: Table) -> Verdict:
    costed = [(cell.ratio, row, column) for row, column, cell in table.cells() if cell.ratio is not None]
    if not costed:
        return Verdict("plain", "Not costed", "No model has a predicted time here; add --cost.")
    wins = [entry for entry in costed if entry[0].wins]
    ratio, row, column = min(costed, key=lambda entry: entry[0].time)
    where = f"{row.name} on {column.title}"
    cheap = sum(entry[0].energy < 1 for entry in costed)
    energy = f"{cheap} of {len(costed)} need less energy there."
    if wins:
        word = f"{len(wins)} of {len(costed)} faster on one DLA core"
        return Verdict("good", word, f"Best: {where}, {significant(ratio.time)}× the time. {energy}")
    within = ", within the spread" if ratio.equal else ""
    text = f"Nearest: {where}, {significant(ratio.time)}× the time{within}. {energy}"
    return Verdict("equal", "No model is clearly faster on one DLA core", text)


def _verdict_counts(table: Table) -> Verdict:
    counts: Dict[str, int] = {}
    for _, _, cell in table.cells():
        word = cell.verdict[1]
        counts[word] = counts.get(word, 0) + 1
    total = sum(counts.values())
    unread = [row for row, _, cell in table.cells() if cell.verdict[1] == NOT_READ]
    failing = [(row, column, cell) for row, column, cell in table.cells() if cell.verdict[1] == DOES_NOT_BUILD]
    if failing:
        row, column, cell = failing[0]
        why = "the parser refuses it" if cell.report is None else "the build fails"
        more = f" And {len(failing) - 1} more." if len(failing) > 1 else ""
        more += f" {len(unread)} not read." if unread else ""
        verb = "does" if len(failing) == 1 else "do"
        return Verdict(
            "bad", f"{len(failing)} of {total} {verb} not build", f"{row.name} on {column.title}: {why}.{more}"
        )
    if unread:
        files = list(dict.fromkeys(row.name for row in unread))
        text = f"{', '.join(files[:NAMED])}{f' and {len(files) - NAMED} more' if len(files) > NAMED else ''}."
        return Verdict("bad", f"{len(unread)} of {total} not read", text)
    best = sorted(counts.items(), key=lambda item: -item[1])
    text = ", ".join(f"{n} {word[0].lower()}{word[1:]}" for word, n in best)
    tone = "good" if set(counts) == {"All on the DLA"} else "plain"
    return Verdict(tone, f"All {total} build", f"{text[0].upper()}{text[1:]}.")


def _spreads(table: Table) -> str:
    """The range of the spreads, needed to compare two numbers."""
    from edgedla.reports.worth import way

    spreads = [
        w.cost.spread
        for _, _, cell in table.cells()
        if cell.report is not None
        for w in (way(cell.report, "tensorrt"), way(cell.report, "gpu"))
        if w is not None
    ]
    if not spreads:
        return ""
    return f"± {min(spreads) * 100:.0f} to {max(spreads) * 100:.0f} %"
