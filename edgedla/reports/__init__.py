"""Any result as a document: text, JSON, Markdown, SARIF, JUnit, HTML."""

from __future__ import annotations

from typing import Optional, Sequence

from edgedla.errors import UsageError
from edgedla.regions.report import CheckReport

#: Forms of a check report.
CHECK_FORMATS = ("text", "json", "markdown", "sarif", "junit", "html")


def render_check(
    reports: Sequence[CheckReport],
    output_format: str,
    *,
    files: Optional[Sequence[str]] = None,
    fail_on: str = "unsupported",
    terminal: bool = False,
) -> str:
    """Check reports in one of CHECK_FORMATS.

    Args:
        files: the models' paths, one a report (SARIF points at them).
        fail_on: what JUnit counts as a failure, see edgedla.reports.gate.FAIL_ON.
        terminal: text with colours, wrapped to the terminal.

    Raises:
        UsageError: no such form.
    """
    # Each form is imported where it is asked for: JSON needs neither rich nor Jinja2.
    if output_format == "text":
        from edgedla.reports.text import to_text

        return to_text(reports, terminal)
    if output_format == "json":
        from edgedla.reports.json_document import to_json

        return to_json(reports)
    if output_format == "markdown":
        from edgedla.reports.markdown import to_markdown

        return to_markdown(reports)
    if output_format == "sarif":
        from edgedla.reports.sarif import to_sarif

        return to_sarif(reports, files)
    if output_format == "junit":
        from edgedla.reports.junit import to_junit

        return to_junit(reports, fail_on)
    if output_format == "html":
        from edgedla.reports.html import to_html

        return to_html(reports)
    raise UsageError(f"no form is called {output_format!r}", allowed=", ".join(CHECK_FORMATS))
