"""The answer of `fix` in every form of report."""

from __future__ import annotations

from typing import Sequence

from edgedla.errors import UsageError
from edgedla.fixes.result import FixResult

FORMATS = ("text", "json", "html")


def render_fix(result: FixResult, form: str, written: Sequence[str] = (), terminal: bool = False) -> str:
    """The text of one form: "text", "json" (the document) or "html".

    Args:
        written: files that the model was written to.
    """
    if form == "json":
        from edgedla.reports.json_document import dump

        return dump({**result.to_dict(), "files": list(written)})
    if form == "text":
        from edgedla.reports.fixes.text import report_lines
        from edgedla.reports.text import folded, print_lines

        lines = [part for line in report_lines(result) for part in folded(line)]
        # A path is copied: it stays on one line.
        return print_lines([*lines, *(("", 0, f"written: {path}") for path in written)], terminal)
    if form == "html":
        from edgedla.reports.fixes.html import to_html

        return to_html(result)
    raise UsageError(f"the answer of fix has no form {form!r}", allowed=", ".join(FORMATS))
