"""A placement in every form of report."""

from __future__ import annotations

from typing import Mapping, Sequence

from edgedla.placement.result.placement import Placement
from edgedla.text.shown import in_form

#: Form -> the function that writes it: (placement, files, terminal, everything) -> text. To add a form: one file here and
#: one row.
FORMS: Mapping[str, str] = {
    "text": "edgedla.reports.placement.text:to_text",
    "json": "edgedla.reports.placement.json:to_json",
    "html": "edgedla.reports.placement.html:to_html",
    "trtexec": "edgedla.reports.placement.trtexec:to_trtexec",
}
FORMATS = tuple(FORMS)


def render_placement(
    placement: Placement, form: str, files: Sequence[str] = (), terminal: bool = False, everything: bool = False
) -> str:
    """The text of one form: "text", "json" (the document), "html" or "trtexec" (one command per engine).

    Args:
        everything: text with every layer instead of a summary of one screen.
    """
    return in_form("a placement", FORMS, form, placement, files, terminal, everything)
