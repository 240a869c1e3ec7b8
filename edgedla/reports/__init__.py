"""Any result as a document: text, JSON, Markdown, SARIF, JUnit, HTML."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, List, Mapping, Optional, Sequence, Tuple

from edgedla.text.shown import in_form

if TYPE_CHECKING:
    from edgedla.regions.report import CheckReport
    from edgedla.reports.unchecked import Unchecked

#: Form of a check report -> the function that writes it: (reports, view) -> text. To add a form: one file under
#: reports/check/, one row here, its name in FORMATS of cli/check/check.py, its ending in cli/output.py. Each is imported only
#: when requested: JSON needs neither rich nor Jinja2.
FORMS: Mapping[str, str] = {
    "text": "edgedla.reports.check.text:to_text",
    "json": "edgedla.reports.check.json:to_json",
    "markdown": "edgedla.reports.check.markdown:to_markdown",
    "sarif": "edgedla.reports.check.sarif:to_sarif",
    "junit": "edgedla.reports.check.junit:to_junit",
    "html": "edgedla.reports.check.html:to_html",
}
CHECK_FORMATS = tuple(FORMS)


def render_check(
    reports: Sequence[CheckReport],
    output_format: str,
    *,
    files: Optional[Sequence[str]] = None,
    fail_on: str = "unsupported",
    terminal: bool = False,
    everything: bool = False,
    quiet: bool = False,
    unchecked: Sequence[Unchecked] = (),
    broken: Sequence[Tuple[str, str, str]] = (),
) -> str:
    """Check reports in one of CHECK_FORMATS.

    Args:
        files: the models' paths, one per report (SARIF points at them).
        fail_on: what JUnit counts as a failure, see edgedla.reports.gate.FAIL_ON.
        terminal: text with colours, wrapped to the terminal.
        everything: text with every layer, not the summary of one screen.
        quiet: text with one line per model.
        unchecked: models without a report, and why; every form lists them after the reports.
        broken: (limit or "baseline", file, sentence) of each that a model breaks; JUnit, SARIF and Markdown begin with them.

    Raises:
        UsageError: unknown form.
    """
    from edgedla.reports.check.view import CheckView

    paths = None if files is None else tuple(files)
    view = CheckView(paths, fail_on, terminal, everything, quiet, tuple(unchecked), tuple(broken))
    if len(reports) > 1 and output_format not in _BY_FILE:
        reports = _told_apart(reports, files or ())
    return in_form("a check", FORMS, output_format, reports, view)


#: Forms that name each model's file or hash beside its name.
_BY_FILE = ("json", "sarif")


def _told_apart(reports: Sequence[CheckReport], files: Sequence[str]) -> List[CheckReport]:
    """The reports; models of one name are called by their paths, as in the table of platforms."""
    from edgedla.reports.table.table import distinct

    names = distinct([report.model for report in reports], files)
    return [replace(report, model=name) for report, name in zip(reports, names)]
