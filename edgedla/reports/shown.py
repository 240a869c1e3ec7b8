"""The forms of results in Python: one row per class that derives from `edgedla.text.shown.Shown`."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Optional

from edgedla.errors import UsageError
from edgedla.io.files import write_atomic
from edgedla.reports import render_check
from edgedla.reports.fixes.text import headline, subject
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.words import count
from edgedla.text.shown import FORMAT_OF_ENDING, Shown, form_of_file


class Kind(NamedTuple):
    """How a class is shown. `render`: (value, form) -> text, UsageError for a form that it lacks. `line`: its answer in one line."""

    render: Callable[[Any, str], str]
    line: Callable[[Any], str]


def form_of(value: Shown, form: str) -> str:
    """A result in one form; "line" is its answer in one line.

    Raises:
        UsageError: it has no such form.
    """
    kind = KINDS[next(base.__name__ for base in type(value).__mro__ if base.__name__ in KINDS)]
    return kind.line(value) if form == "line" else kind.render(value, form)


def save(value: Shown, path: Path) -> Path:
    form = form_of_file(path.name)
    if not form:
        raise UsageError(f"no form has the ending {path.suffix!r}", where=str(path), allowed=", ".join(FORMAT_OF_ENDING))
    return write_atomic(path, form_of(value, form))


def _check(report: Any, form: str) -> str:
    if form == "csv":
        from edgedla.reports.table import render_table, table_of_reports

        return render_table(table_of_reports([report], [report.model], ()), form)
    return render_check([report], form)


def _prediction_line(p: Any) -> str:
    times = f"{milliseconds(p.latency_us)} per frame, {significant(p.pipeline_fps)} frames/s in a pipeline"
    return f"{p.platform['title']}, {p.precision.upper()}: predicted {times}"


def _quantized_line(q: Any) -> str:
    return f"{q.network}: {count(len(q.absmax), 'INT8 scale')}, outputs {q.sqnr_db:.1f} dB SQNR on {q.holdout} (SIMULATED)"


def _headed(render: Callable[[Any, str], str]) -> Callable[[Any], str]:
    """The text's title, and the line behind it if that is no table: what was asked, and the answer."""

    def line(value: Any) -> str:
        first, *rest = render(value, "text").strip().splitlines()
        title = [first, *itertools.takewhile(lambda part: part.startswith("  "), rest)]
        answer = [part for part in rest[len(title) - 1 :][:1] if part and "  " not in part]
        return ": ".join([" ".join(part.strip() for part in title).rstrip(":."), *answer])

    return line


def _kind(room: str, name: str, line: Optional[Callable[[Any], str]] = None) -> Kind:
    """`name`: the function of a room of reports, imported when it is first used. `line`: by default the head of the text."""

    def render(value: Any, form: str) -> str:
        text: str = getattr(importlib.import_module(f"edgedla.reports.{room}"), name)(value, form)
        return text

    return Kind(render, line or _headed(render))


#: Class -> how it is shown. To add a class: derive it from Shown with `repr=False` in its dataclass, and a row here.
KINDS: Mapping[str, Kind] = {
    "CheckReport": Kind(_check, lambda report: render_check([report], "text", quiet=True).strip()),
    "Placement": _kind("placement", "render_placement"),
    "Prediction": _kind("prediction", "render_prediction", _prediction_line),
    "FixResult": _kind("fixes", "render_fix", lambda fixed: f"{subject(fixed)}: {headline(fixed)[1]}"),
    "Quantized": _kind("quantization", "render_quantized", _quantized_line),
    "Deployment": _kind("deployment", "render_deployment"),
}
