"""A placement in every form that it can be shown in."""

from __future__ import annotations

from typing import Sequence

from edgedla.errors import UsageError
from edgedla.placement.result.placement import Placement

FORMATS = ("text", "json", "html", "trtexec")


def render_placement(placement: Placement, wanted: str, files: Sequence[str] = (), terminal: bool = False) -> str:
    """The text of one form: "text", "json" (the document), "html" or "trtexec" (one command an engine)."""
    if wanted == "json":
        return placement.to_json()
    if wanted == "html":
        from edgedla.reports.placement_html import to_html

        return to_html(placement)
    if wanted == "trtexec":
        from edgedla.placement.result.export import trtexec_commands

        return "\n".join(trtexec_commands(placement, tuple(files) or None)) + "\n"
    if wanted == "text":
        from edgedla.reports.placement_text import to_text

        return to_text(placement, terminal)
    raise UsageError(f"a placement has no form {wanted!r}", allowed=", ".join(FORMATS))
