"""A deployment in every form of report."""

from __future__ import annotations

from typing import Mapping

from edgedla.deployment.deployment import Deployment
from edgedla.text.shown import in_form

#: Form -> the function that writes it: (deployment, terminal) -> text. To add a form: one file here and one row.
FORMS: Mapping[str, str] = {
    "text": "edgedla.reports.deployment.text:to_text",
    "json": "edgedla.reports.json_document:to_json",
    "markdown": "edgedla.reports.deployment.markdown:to_markdown",
    "html": "edgedla.reports.deployment.html:to_html",
}
FORMATS = tuple(FORMS)


def render_deployment(deployment: Deployment, form: str, terminal: bool = False) -> str:
    """The text of one form: "text", "json" (the document), "markdown" or "html"."""
    return in_form("a deployment", FORMS, form, deployment, terminal)
