"""`Shown` and `Report`: a result prints itself in a line, shows its page in a notebook, and is saved in the form that an ending names."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Mapping, Union

from edgedla.errors import UsageError

#: What writes the forms. It imports every result, so results name it and import it only when they are shown.
_FORMS = "edgedla.reports.shown"

#: Ending -> format. The longest ending that fits wins.
FORMAT_OF_ENDING: Mapping[str, str] = {
    ".txt": "text",
    ".log": "text",
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".sarif": "sarif",
    ".sarif.json": "sarif",
    ".xml": "junit",
    ".junit": "junit",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
}


def form_of_file(path: str) -> str:
    """The form that a file's ending names; "" for none."""
    endings = [e for e in FORMAT_OF_ENDING if path.lower().endswith(e)]
    return FORMAT_OF_ENDING[max(endings, key=len)] if endings else ""


def in_form(what: str, forms: Mapping[str, str], form: str, *given: Any) -> str:
    """The text that a form's function writes; `forms`: form -> "module:function", of which only the one asked for is imported.

    Raises:
        UsageError: `what` has no such form.
    """
    if form not in forms:
        raise UsageError(f"{what} has no form {form!r}", allowed=", ".join(forms))
    module, _, function = forms[form].partition(":")
    text: str = getattr(importlib.import_module(module), function)(*given)
    return text


class Shown:
    """Base of results that people look at: CheckReport, Placement, Prediction, FixResult, Quantized, Deployment."""

    def text(self) -> str:
        """What the command prints."""
        return self._form("text")

    def html(self) -> str:
        """The page that `-o FILE.html` writes.

        Raises:
            UsageError: this result has no page.
        """
        return self._form("html")

    def save_report(self, path: Union[str, Path]) -> Path:
        """Writes the form that the file's ending names: .txt, .json, .html, .md, and what else the result has; whole or not at all.

        Raises:
            UsageError: no form of this result has the ending.
            EnvironmentMissing: the file cannot be written.
        """
        written: Path = importlib.import_module(_FORMS).save(self, Path(path))
        return written

    def _form(self, form: str) -> str:
        text: str = importlib.import_module(_FORMS).form_of(self, form)
        return text

    def __repr__(self) -> str:
        return self._form("line")

    def _repr_html_(self) -> str:
        """The page in a frame of its own: its style and scripts cannot reach the notebook, nor the notebook's reach it."""
        import html

        try:
            page = self.html()
        except Exception:
            # A notebook shows the text then; an error here would replace the result by a traceback.
            return f"<pre>{html.escape(self.text())}</pre>"
        frame = 'sandbox="allow-scripts" style="width:100%;height:640px;border:0" loading="lazy"'
        return f'<iframe {frame} srcdoc="{html.escape(page, quote=True)}"></iframe>'

    def _repr_markdown_(self) -> str:
        try:
            return self._form("markdown")
        except UsageError:
            return f"```text\n{self.text()}```\n"


class Report(Shown):
    """A result that is nothing but its report. The others' `save` writes what they made: a model, scales, an artifact."""

    def save(self, path: Union[str, Path]) -> Path:
        """`save_report`: the form that the file's ending names."""
        return self.save_report(path)
