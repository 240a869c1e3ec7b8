"""A truth report on one page."""

from __future__ import annotations

from typing import Any, List, Mapping

#: Differences shown per step; the report has all of them.
SHOWN = 8


def summary(report: Mapping[str, Any]) -> str:
    """The steps tried, the differences from the expectations, and the steps skipped, as Markdown."""
    steps = report["steps"]
    counts = {state: sum(s["state"] == state for s in steps) for state in ("ok", "differs", "failed", "skipped")}
    lines = [
        "# First contact with a board",
        "",
        f"edgedla {report['edgedla']}" + (", a quick run" if report["quick"] else ""),
        ", ".join(f"{n} {state}" for state, n in counts.items()) + f" of {len(steps)} steps",
        "",
        "| step | state | seconds | |",
        "|---|---|---|---|",
    ]
    for step in steps:
        reason = (step["reason"].strip().splitlines() or [""])[-1].replace("|", "\\|")
        lines.append(f"| {step['id']} {step['title']} | {step['state']} | {step['seconds']:g} | {reason} |")
    for step in steps:
        lines += _differences(step)
    return "\n".join(lines) + "\n"


def _differences(step: Mapping[str, Any]) -> List[str]:
    differing = [f for f in step["findings"] if f["differs"]]
    if not differing:
        return []
    lines = ["", f"## {step['id']}: {len(differing)} of {len(step['findings'])} findings differ", ""]
    for finding in differing[:SHOWN]:
        source = f" ({finding['source']})" if finding["source"] else ""
        lines.append(f"- {finding['name']}: expected {finding['expected']}{source}, seen {finding['seen']}")
    if len(differing) > SHOWN:
        lines.append(f"- and {len(differing) - SHOWN} more, see report.json")
    return lines
