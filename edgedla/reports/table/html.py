"""The buyer's table as one HTML page: the buyer's two questions answered, then models by platforms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import List

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
        verdicts=verdicts(table),
        table=replace(table, rows=table.by_ratio()),
        sorted_by=columns[0].title if columns else "",
        spreads=_spreads(table),
        frames=table.frames(),
        legend=table.needs.legend,
        differences=of_one_model(table),
        ends=ends,
    )


def verdicts(table: Table) -> List[Verdict]:
    """What the models gain, and which meet the needs or build."""
    return [_fastest(table), _needs(table) if table.needs.text else _verdict_counts(table)]


def _needs(table: Table) -> Verdict:
    """Which platforms meet the needs, for each model."""
    met = [table.met(row) for row in table.rows]
    titles = [", ".join(column.title for column in columns) or "none" for columns in met]
    text = titles[0] if len(titles) == 1 else "; ".join(f"{row.name}: {t}" for row, t in zip(table.rows, titles))
    least = min(map(len, met))
    return Verdict(
        "good" if least else "bad",
        f"{sum(map(len, met))} of {len(table.rows) * len(table.columns)} meet the needs",
        f"Needed: {table.needs.text}. Met by: {text}.",
    )


def _fastest(table: Table) -> Verdict:
    costed = [
        (cell.headline, row, column) for row, column, cell in table.cells() if cell.headline is not None and cell.headline.axes
    ]
    if not costed:
        return Verdict("plain", "Not costed", "No model has a predicted time here; add --cost.")
    counts = Counter(said.word for said, _, _ in costed)
    gaining = [entry for entry in costed if entry[0].tone == "good"]
    said, row, column = min(gaining or costed, key=lambda entry: entry[0].axes[0].ratio)
    words = ", ".join(f"{n} {word[0].lower()}{word[1:]}" for word, n in counts.most_common())
    where = f"{row.name} on {column.title}"
    answer = f"{said.text[0].lower()}{said.text[1:]}"
    if gaining:
        return Verdict("good", f"{len(gaining)} of {len(costed)} gain by the DLA", f"{words}. Best: {where}, {answer}")
    return Verdict("equal", "No model gains by the DLA", f"{words}. Nearest: {where}, {answer}")


def _verdict_counts(table: Table) -> Verdict:
    counts = Counter(cell.verdict[1] for _, _, cell in table.cells())
    total = sum(counts.values())
    unread = [row for row, _, cell in table.cells() if cell.verdict[1] == NOT_READ]
    failing = [(row, column, cell) for row, column, cell in table.cells() if cell.verdict[1] == DOES_NOT_BUILD]
    if failing:
        row, column, cell = failing[0]
        why = "the parser refuses it" if cell.report is None else "the build fails"
        more = f" And {len(failing) - 1} more." if len(failing) > 1 else ""
        more += f" {len(unread)} not read." if unread else ""
        verb = "does" if len(failing) == 1 else "do"
        return Verdict("bad", f"{len(failing)} of {total} {verb} not build", f"{row.name} on {column.title}: {why}.{more}")
    if unread:
        files = list(dict.fromkeys(row.name for row in unread))
        text = f"{', '.join(files[:NAMED])}{f' and {len(files) - NAMED} more' if len(files) > NAMED else ''}."
        return Verdict("bad", f"{len(unread)} of {total} not read", text)
    text = ", ".join(f"{n} {word[0].lower()}{word[1:]}" for word, n in counts.most_common())
    tone = "good" if set(counts) == {"All on the DLA"} else "plain"
    return Verdict(tone, f"All {total} build", f"{text[0].upper()}{text[1:]}.")


def _spreads(table: Table) -> str:
    """The range of the spreads, needed to compare two numbers."""
    from edgedla.reports.gains import way

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
