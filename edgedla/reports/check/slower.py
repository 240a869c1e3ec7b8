"""What a check says of changes that it does not rank."""

from __future__ import annotations

from edgedla.regions.report import CheckReport
from edgedla.reports.page.numbers import milliseconds


def nothing_to_change(report: CheckReport) -> str:
    """What stands where no change is ranked, though layers are refused."""
    if report.slower is not None:
        return "No change of a refused layer makes a frame faster."
    return "Nothing is worth changing: no known remedy brings more than its loadables cost."


def slower_changes(report: CheckReport) -> str:
    """The changes that are left out because a frame would take longer; "" where there are none."""
    slower = report.slower
    if slower is None:
        return ""
    with_them, without = milliseconds(slower.latency_us), milliseconds(slower.without_us)
    return (
        f"Left out: {', '.join(slower.fixes)}. More layers would run on the DLA, but a frame would take {with_them} instead "
        f"of {without} (predicted)."
    )
