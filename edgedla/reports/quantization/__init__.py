"""The answers of `quantize` and `evaluate` in every form of report."""

from __future__ import annotations

from typing import Mapping

from edgedla.accuracy.evaluate import Evaluation
from edgedla.accuracy.result import Quantized
from edgedla.text.shown import in_form

FORMS: Mapping[str, str] = {
    "text": "edgedla.reports.quantization.text:quantized_text",
    "json": "edgedla.reports.json_document:to_json",
    "html": "edgedla.reports.quantization.page:to_page",
}
FORMATS = tuple(FORMS)
OF_EVALUATION = {"text": "edgedla.reports.quantization.text:evaluation_text", "json": FORMS["json"]}


def render_quantized(result: Quantized, form: str, terminal: bool = False) -> str:
    """The text of one form: "text", "json" (the document) or "html" (a page).

    Raises:
        UsageError: unknown form.
    """
    return in_form("the answer of quantize", FORMS, form, result, terminal)


def render_evaluation(result: Evaluation, form: str, terminal: bool = False) -> str:
    """The text of one form: "text" or "json" (the document)."""
    return in_form("the answer of evaluate", OF_EVALUATION, form, result, terminal)
