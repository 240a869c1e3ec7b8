"""A truth report on one page."""

from __future__ import annotations

from typing import Any, List, Mapping

from edgedla.text.printable import printable

#: Differences shown per step; the report has all of them.
SHOWN = 8
#: Characters shown of one difference, or of one cell.
MOST_CHARACTERS = 1000


def summary(report: Mapping[str, Any]) -> str:
    """The steps tried, the differences from the expectations, and the steps skipped, as Markdown."""
    steps = report["steps"]
    counts = {state: sum(s["state"] == state for s in steps) for state in ("ok", "differs", "failed", "skipped")}
    lines = [
        "# First contact with a board",
        "",
        f"edgedla {_cell(report['edgedla'])}" + (", a quick run" if report["quick"] else ""),
        ", ".join(f"{n} {state}" for state, n in counts.items()) + f" of {len(steps)} steps",
        "",
        "| step | state | seconds | |",
        "|---|---|---|---|",
    ]
    for step in steps:
        id_, title, reason = (_cell(t) for t in (step["id"], step["title"], (step["reason"].strip().splitlines() or [""])[-1]))
        lines.append(f"| {id_} {title} | {step['state']} | {step['seconds']:g} | {reason} |")
    for step in steps:
        lines += _differences(step)
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return printable(text[:MOST_CHARACTERS]).replace("|", "\\|")


def _differences(step: Mapping[str, Any]) -> List[str]:
    differing = [f for f in step["findings"] if f["differs"]]
    if not differing:
        return []
    lines = ["", f"## {_cell(step['id'])}: {len(differing)} of {len(step['findings'])} findings differ", ""]
    for finding in differing[:SHOWN]:
        source = f" ({finding['source']})" if finding["source"] else ""
        line = f"{finding['name']}: expected {finding['expected']}{source}, seen {finding['seen']}"
        lines.append(f"- {printable(line)[:MOST_CHARACTERS]}")
    if len(differing) > SHOWN:
        lines.append(f"- and {len(differing) - SHOWN} more, see report.json")
    return lines
