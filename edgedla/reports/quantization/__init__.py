"""The answers of `quantize` and `evaluate` in every form of report."""

from __future__ import annotations

from edgedla.accuracy.evaluate import Evaluation
from edgedla.accuracy.result import Quantized
from edgedla.errors import UsageError

FORMATS = ("text", "json", "html")


def render_quantized(result: Quantized, form: str, terminal: bool = False) -> str:
    """The text of one form: "text", "json" (the document) or "html" (a page).

    Raises:
        UsageError: unknown form.
    """
    if form == "json":
        from edgedla.reports.json_document import dump

        return dump(result.to_dict())
    if form == "text":
        from edgedla.reports.quantization.text import quantized_text

        return quantized_text(result, terminal)
    if form == "html":
        from edgedla.reports.quantization.page import to_page

        return to_page(result)
    raise UsageError(f"the answer of quantize has no form {form!r}", allowed=", ".join(FORMATS))


def render_evaluation(result: Evaluation, form: str, terminal: bool = False) -> str:
    """The text of one form: "text" or "json" (the document)."""
    if form == "json":
        from edgedla.reports.json_document import dump

        return dump(result.to_dict())
    from edgedla.reports.quantization.text import evaluation_text

    return evaluation_text(result, terminal)
